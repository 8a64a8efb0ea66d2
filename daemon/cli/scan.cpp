#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "daemon/cli/command.hpp"
#include "daemon/cli/interrupt.hpp"
#include "daemon/cli/keep.hpp"
#include "daemon/cli/scan_files.hpp"
#include "daemon/cli/view.hpp"
#include "daemon/pipeline/triage.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/records/timestamp.hpp"

namespace triage::daemon {

using Clock = std::chrono::steady_clock;

namespace {

// A bar on stderr, for scans that take longer than a second on a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::uint64_t total) : total_(total), on_(::isatty(STDERR_FILENO) != 0), next_(Clock::now() + std::chrono::seconds(1)) {}
  ~ProgressBar() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void show(std::uint64_t bytes) {
    if (!on_ || Clock::now() < next_) return;
    next_ = Clock::now() + std::chrono::milliseconds(200);
    shown_ = true;
    const std::string read = parsers::bytes_text(parsers::Bytes(static_cast<std::int64_t>(bytes)));
    if (total_ > 0) {
      const auto share = static_cast<int>(std::min<std::uint64_t>(bytes * 100 / total_, 100));
      std::fprintf(stderr, "\r\x1b[K%3d %% [%-40.*s] %s", share, share * 40 / 100, "########################################", read.c_str());
    } else {
      std::fprintf(stderr, "\r\x1b[K%s read", read.c_str());
    }
    std::fflush(stderr);
  }

 private:
  std::uint64_t total_;
  bool on_, shown_ = false;
  Clock::time_point next_;
};

void forget_before(signatures::SourceFindings& source, parsers::TimePoint since) {
  std::erase_if(source.findings, [&](const signatures::Finding& finding) { return finding.time && *finding.time < since; });
  if (source.last_time && *source.last_time < since) source.findings.clear();
}

}  // namespace

void print_answer(const Answer& answer, Format format, bool all, const std::string& rules_hash, std::FILE* out) {
  std::string text;
  switch (format) {
    case Format::text: {
      TextStyle style = terminal_style(all);
      if (out == stderr) style.colour = style.colour && ::isatty(STDERR_FILENO);
      text = answer_text(answer, style);
      break;
    }
    case Format::json: text = json_text(answer_json(answer, rules_hash), 2) + "\n"; break;
    case Format::markdown: text = answer_markdown(answer); break;
    case Format::sarif: text = json_text(answer_sarif(answer), 2) + "\n"; break;
  }
  std::fwrite(text.data(), 1, text.size(), out);
}

int scan_command(const ScanCommand& command) {
  const auto start = Clock::now();
  std::optional<parsers::TimePoint> since;
  if (!command.since.empty()) {
    const auto stamp = parsers::read_timestamp(command.since, this_year());
    if (!stamp || stamp->length != command.since.size()) {
      complain(parsers::Error(parsers::ErrorCode::syntax, "--since is '" + command.since + "', not a clock time")
                   .help("write it as 2026-12-01T13:00:00Z"));
      return kTrouble;
    }
    since = stamp->time;
  }
  const auto knowledge = knowledge_or_complain(command.rules);
  if (!knowledge) return kTrouble;
  ExpandedPaths paths = expand_paths(command.paths);
  std::uint64_t total = 0;
  for (const std::string& file : paths.files) total += size_of(file);

  ScannedFiles scanned;
  {
    const Interrupt interrupt;
    ProgressBar bar(total);
    ScanFilesOptions options;
    options.threads = command.threads > 0 ? command.threads : std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
    options.default_year = this_year();
    options.progress = [&](std::uint64_t bytes) { bar.show(bytes); };
    options.stop = [] { return Interrupt::requested() != 0; };
    scanned = scan_files(knowledge, paths.files, options);
  }
  if (since)
    for (signatures::SourceFindings& source : scanned.sources) forget_before(source, *since);
  Answer answer = judge_sources(*knowledge, std::move(scanned.sources), wall_clock());
  tell_empty(answer);
  answer.stats.seconds = std::chrono::duration<double>(Clock::now() - start).count();

  const std::string hash = knowledge->rules->hash();
  ::signal(SIGPIPE, SIG_IGN);   // `| head` closes early: the answer is still kept in the database
  errno = 0;
  print_answer(answer, command.format, command.all, hash, stdout);
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int write_fault = errno;
  complain(paths.errors);
  complain(scanned.errors);
  bool trouble = !paths.errors.empty() || !scanned.errors.empty();
  if (!written && write_fault != EPIPE) {
    complain(parsers::Error(parsers::ErrorCode::io, "the answer could not be written to standard output")
                 .because(std::strerror(write_fault))
                 .help("free space on the disk, or write it elsewhere"));
    trouble = true;
  }
  if (Interrupt::requested() != 0) {
    complain(parsers::Error(parsers::ErrorCode::unavailable, "the scan was interrupted; the answer rests on what was read until then")
                 .because(std::to_string(scanned.unread) + " of " + std::to_string(paths.files.size()) + " files were not read to their end")
                 .help(command.database.empty() ? "" : "nothing was kept in " + command.database));
    Interrupt::obey();
  }
  if (!command.database.empty()) {
    if (const parsers::Status kept = keep_answer(command.database, answer, hash, wall_clock()); !kept.ok()) {
      complain(kept.error());
      return kTrouble;   // the user asked for it to be kept
    }
  }
  if (!answer.incidents.empty()) return kFailureFound;
  return trouble ? kTrouble : kNothingFound;
}

}  // namespace triage::daemon
