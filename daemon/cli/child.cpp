#include "daemon/cli/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

// A process left behind by the child may hold the pipes open for ever: after the child's end we wait this long for silence.
constexpr auto kDrain = std::chrono::milliseconds(500);
constexpr auto kLeftBehind = std::chrono::seconds(10);

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Pipe {
  Fd read, write;
};

Error system_error(const std::string& doing) {
  return Error(ErrorCode::io, doing + " failed").because(std::strerror(errno));
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("making a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// False: our reader is gone.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, 1000);
    } else if (count < 0 && errno != EINTR) {
      return errno != EPIPE;   // a full disk: the child goes on, and is still diagnosed
    }
  }
  return true;
}

constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kForwarded) sigaddset(&set, number);
  sigaddset(&set, SIGCHLD);
  return set;
}

// Blocks what we forward, for the time of the run.
class BlockedSignals {
 public:
  BlockedSignals() : pipe_before_(::signal(SIGPIPE, SIG_IGN)), child_before_(::signal(SIGCHLD, SIG_DFL)) {   // ignored, it would leave nobody to wait for
    const sigset_t set = watched_signals();
    sigprocmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // In the child: all as it was when we were started.
  void restore() const {
    ::signal(SIGPIPE, pipe_before_);
    ::signal(SIGCHLD, child_before_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  void (*pipe_before_)(int);
  void (*child_before_)(int);
  sigset_t before_{};
};

[[noreturn]] void become(std::vector<char*>& arguments, const Pipe& out, const Pipe& err, const Pipe& fault) {
  ::dup2(out.write.get(), STDOUT_FILENO);
  ::dup2(err.write.get(), STDERR_FILENO);
  ::execvp(arguments.front(), arguments.data());
  const int code = errno;
  (void)!::write(fault.write.get(), &code, sizeof code);
  ::_exit(127);
}

// Passes on what stands in the pipe; closes it at its end, and when nobody reads us any more: the child meets that as it would without us.
bool pass_on(Fd& pipe, int to, bool is_stderr, const std::function<void(std::string_view, bool)>& output) {
  std::array<char, 1 << 16> room;
  const ssize_t count = ::read(pipe.get(), room.data(), room.size());
  if (count > 0) {
    const std::string_view bytes(room.data(), static_cast<std::size_t>(count));
    output(bytes, is_stderr);
    if (!write_all(to, bytes)) pipe.reset();
    return true;
  }
  if (count == 0 || (errno != EINTR && errno != EAGAIN)) pipe.reset();
  return false;
}

std::optional<ChildEnd> reap(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  ChildEnd end;
  end.pid = child;
  if (WIFSIGNALED(status))
    end.signal = WTERMSIG(status);
  else
    end.exit_code = WEXITSTATUS(status);
  return end;
}

// Signals that came for us go to the child. A terminal's ^C reaches the child by itself, being of the same process group. child: empty when it
// has ended, and its number may be another's. Returns whether a signal asks to end.
bool forward_signals(int signals, std::optional<pid_t> child) {
  bool ends = false;
  signalfd_siginfo info;
  while (::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    const bool from_terminal = info.ssi_code == SI_KERNEL && (number == SIGINT || number == SIGQUIT || number == SIGHUP || number == SIGWINCH);
    if (!from_terminal && child) ::kill(*child, number);
    ends = ends || number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
  }
  return ends;
}

}  // namespace

Result<ChildEnd> run_child(const std::vector<std::string>& command, const std::function<void(std::string_view, bool)>& output) {
  TRIAGE_TRY(Pipe out, make_pipe());
  TRIAGE_TRY(Pipe err, make_pipe());
  TRIAGE_TRY(Pipe fault, make_pipe());
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const BlockedSignals blocked;
  const sigset_t set = watched_signals();
  const Fd signals(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals.open()) return system_error("watching signals");
  const pid_t child = ::fork();
  if (child < 0) return system_error("starting a process");
  if (child == 0) {
    blocked.restore();
    become(arguments, out, err, fault);
  }
  out.write.reset();
  err.write.reset();
  fault.write.reset();
  int code = 0;
  if (::read(fault.read.get(), &code, sizeof code) == static_cast<ssize_t>(sizeof code)) {
    ::waitpid(child, nullptr, 0);
    return Error(code == ENOENT ? ErrorCode::not_found : ErrorCode::io, "the command '" + command.front() + "' cannot be started")
        .because(std::strerror(code));
  }

  std::optional<ChildEnd> end;
  // What the child left behind may hold the pipes and print for ever: it is heard until it is quiet, for some seconds at most.
  constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  auto quiet_until = kNever, over_at = kNever;
  while (!end || out.read.open() || err.read.open()) {
    std::array<pollfd, 3> wait = {pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0}, pollfd{signals.get(), POLLIN, 0}};
    const int ready = ::poll(wait.data(), wait.size(), 100);
    bool passed = false;
    if (ready > 0) {
      if (wait[0].revents) passed |= pass_on(out.read, STDOUT_FILENO, false, output);
      if (wait[1].revents) passed |= pass_on(err.read, STDERR_FILENO, true, output);
      if (wait[2].revents && forward_signals(signals.get(), end ? std::nullopt : std::optional(child)) && end) break;
    }
    if (!end) end = reap(child);
    if (!end) continue;
    const auto now = std::chrono::steady_clock::now();
    if (over_at == kNever) over_at = now + kLeftBehind;
    if (passed || quiet_until == kNever) quiet_until = now + kDrain;
    if (now > quiet_until || now > over_at) break;
  }
  return *end;
}

}  // namespace triage::daemon
