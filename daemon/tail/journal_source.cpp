#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/tail/system_sources.hpp"
#include "parsers/base/text.hpp"

extern char** environ;

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kValueBytes = 256 * 1024;    // of one value that is kept; core dumps in the journal have more
constexpr std::size_t kNameBytes = 256;            // journald: field names have at most 64
constexpr std::size_t kPortion = 64 * 1024;
constexpr std::size_t kPortions = 8;               // of one call

class JournalSource final : public SystemSource {
 public:
  JournalSource(JournalOptions options, std::string cursor) : options_(std::move(options)), cursor_(std::move(cursor)) {}
  ~JournalSource() override { stop(); }
  std::string name() const override { return "journal"; }
  int fd() const override { return fd_; }

  Result<SystemLines> read() override {
    if (std::exchange(ended_, false)) return ended();
    if (fd_ < 0) TRIAGE_CHECK(start());
    SystemLines out;
    std::array<char, kPortion> room;
    for (std::size_t i = 0; i < kPortions; ++i) {
      const ssize_t count = ::read(fd_, room.data(), room.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) break;
      if (count <= 0) {
        stop();
        reader_ = JournalReader{};   // an entry that was cut comes again after the cursor
        if (out.text.empty()) return ended();
        ended_ = true;               // told by the next call
        break;
      }
      const std::string last = reader_.feed({room.data(), static_cast<std::size_t>(count)}, out.text);
      if (!last.empty()) cursor_ = last;
    }
    out.cursor = cursor_;
    return out;
  }

 private:
  static Error ended() { return Error(ErrorCode::unavailable, "journalctl ended").at(Place{"journal", {}, {}, {}, {}}).help("it is started again; 'journalctl --verify' tells of damaged files"); }

  parsers::Status start() {
    const auto now = std::chrono::steady_clock::now();
    if (started_ && now - *started_ < options_.again) return Error(ErrorCode::unavailable, "journalctl is started again in some seconds");
    started_ = now;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error(ErrorCode::unavailable, "no pipe to journalctl").because(std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;   // the child has not our blocked signals
    posix_spawnattr_init(&attributes);
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGTERM);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<std::string> arguments = journal_arguments(options_, cursor_);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const int code = ::posix_spawnp(&child_, options_.program.c_str(), &actions, &attributes, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    ::close(ends[1]);
    if (code != 0) {
      ::close(ends[0]);
      child_ = -1;
      return Error(ErrorCode::unavailable, "journalctl cannot be started").at(Place{options_.program, {}, {}, {}, {}}).because(std::strerror(code)).help("install systemd, or turn 'journal' off");
    }
    if (cursor_.empty()) reader_.only_from(std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
    fd_ = ends[0];
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
    return parsers::done();
  }

  void stop() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {}
    child_ = -1;
  }

  JournalOptions options_;
  std::string cursor_;
  JournalReader reader_;
  int fd_ = -1;
  bool ended_ = false;
  pid_t child_ = -1;
  std::optional<std::chrono::steady_clock::time_point> started_;
};

}  // namespace

void JournalReader::field(std::string_view name, std::string_view value) {
  if (name == "__CURSOR") cursor_ = std::string(value);
  else if (name == "__REALTIME_TIMESTAMP") time_us_ = parsers::read_integer(value).value_or(0);
  else if (name == "MESSAGE") message_ = std::string(value);
  else if (name == "_HOSTNAME") host_ = std::string(value);
  else if (name == "SYSLOG_IDENTIFIER") ident_ = std::string(value);
  else if (name == "_PID") pid_ = std::string(value);
  else if (name == "_TRANSPORT") kernel_ = value == "kernel";
}

void JournalReader::entry(std::string& out) {
  if ((!message_.empty() || !ident_.empty()) && time_us_ >= from_us_) {
    const std::string front = iso_time(parsers::TimePoint(std::chrono::microseconds(time_us_))) + " " + (host_.empty() ? "localhost" : host_) + " " +
                              (kernel_ ? std::string("kernel") : (ident_.empty() ? "unknown" : ident_) + (pid_.empty() ? "" : "[" + pid_ + "]")) + ": ";
    for (const std::string_view line : parsers::split(message_, '\n')) out.append(front).append(line).append("\n");
  }
  if (!cursor_.empty()) last_cursor_ = cursor_;
  message_.clear();
  host_.clear();
  ident_.clear();
  pid_.clear();
  cursor_.clear();
  time_us_ = 0;
  kernel_ = false;
}

// "NAME=value\n"; or "NAME\n", the length as 64 bits little-endian, the value, "\n"; an empty line ends the entry.
std::string JournalReader::feed(std::string_view portion, std::string& out) {
  last_cursor_.clear();
  if (skip_ > 0) {
    const std::size_t gone = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, portion.size()));
    skip_ -= gone;
    portion.remove_prefix(gone);
  }
  if (skip_line_) {
    const std::size_t end = portion.find('\n');
    if (end == std::string_view::npos) return {};
    portion.remove_prefix(end + 1);
    skip_line_ = false;
  }
  bytes_ += portion;
  std::string_view rest = bytes_;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      if (rest.size() <= kValueBytes + kNameBytes) break;
      if (const std::size_t equal = rest.find('='); equal != std::string_view::npos) field(rest.substr(0, equal), rest.substr(equal + 1));
      rest = {};
      skip_line_ = true;
      break;
    }
    const std::string_view line = rest.substr(0, end);
    if (line.empty()) {
      entry(out);
      rest.remove_prefix(1);
      continue;
    }
    if (const std::size_t equal = line.find('='); equal != std::string_view::npos) {
      field(line.substr(0, equal), line.substr(equal + 1));
      rest.remove_prefix(end + 1);
      continue;
    }
    if (rest.size() < end + 1 + 8) break;
    std::uint64_t size = 0;
    for (std::size_t i = 8; i-- > 0;) size = size << 8 | static_cast<unsigned char>(rest[end + 1 + i]);
    const std::size_t begin = end + 1 + 8;
    if (size > kValueBytes) {   // its beginning is kept, the rest skipped
      const std::uint64_t all = size > UINT64_MAX - 1 - begin ? UINT64_MAX : begin + size + 1;
      if (rest.size() < begin + kValueBytes) break;
      field(line, rest.substr(begin, kValueBytes));
      const std::uint64_t here = std::min<std::uint64_t>(all, rest.size());
      skip_ = all - here;
      rest.remove_prefix(static_cast<std::size_t>(here));
      continue;
    }
    if (rest.size() < begin + size + 1) break;
    field(line, rest.substr(begin, static_cast<std::size_t>(size)));
    rest.remove_prefix(begin + static_cast<std::size_t>(size) + 1);
  }
  bytes_.erase(0, bytes_.size() - rest.size());
  return last_cursor_;
}

std::vector<std::string> journal_arguments(const JournalOptions& options, const std::string& cursor) {
  std::vector<std::string> out = {options.program, "--output=export", "--follow", "--quiet", "--all", "--no-pager",
                                  "--output-fields=MESSAGE,_HOSTNAME,SYSLOG_IDENTIFIER,_PID,_TRANSPORT"};
  if (cursor.empty()) {
    out.push_back("--lines=1");   // for its cursor; its text is of before
  } else {
    out.push_back("--no-tail");
    out.push_back("--after-cursor=" + cursor);
  }
  bool first = true;
  const auto match = [&](std::string text) {
    if (!first) out.push_back("+");
    first = false;
    out.push_back(std::move(text));
  };
  if (options.kernel) match("_TRANSPORT=kernel");
  for (const std::string& unit : options.units) match("_SYSTEMD_UNIT=" + unit);
  return out;
}

std::unique_ptr<SystemSource> make_journal_source(JournalOptions options, std::string cursor) {
  return std::make_unique<JournalSource>(std::move(options), std::move(cursor));
}

}  // namespace triage::daemon
