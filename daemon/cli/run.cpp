// run: a training command passes through unchanged; when it fails, its output is diagnosed.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "daemon/cli/child.hpp"
#include "daemon/cli/command.hpp"
#include "daemon/cli/keep.hpp"
#include "daemon/cli/view.hpp"
#include "daemon/pipeline/intake_stream.hpp"
#include "daemon/pipeline/triage.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Two streams of bytes to one stream of whole lines, in the order in which the lines were completed. limit: a line longer than
// limits::kLineBytes goes on in pieces.
class LineMixer {
 public:
  template <class Sink>
  void add(std::string_view bytes, bool second, Sink&& sink) {
    std::string& open = open_[second ? 1 : 0];
    open += bytes;
    const std::size_t end = open.size() > parsers::limits::kLineBytes && open.find('\n') == std::string::npos ? open.size() : open.rfind('\n') + 1;
    if (end == 0) return;
    sink(std::string_view(open).substr(0, end));
    open.erase(0, end);
  }
  template <class Sink>
  void finish(Sink&& sink) {
    for (std::string& open : open_)
      if (!open.empty()) sink(std::string_view(open += '\n'));
  }

 private:
  std::array<std::string, 2> open_;
};

// How the process ended is evidence as well: a kill leaves no other.
signatures::Finding exit_finding(const ChildEnd& end, std::uint64_t line) {
  signatures::Finding finding;
  finding.rule = "run.exit";
  finding.role = signatures::Role::confirmation;
  finding.kind = "proc.exit";
  if (end.signal == 4) finding.kind = "proc.sigill";
  if (end.signal == 6) finding.kind = "proc.sigabrt";
  if (end.signal == 7) finding.kind = "proc.sigbus";
  if (end.signal == 8) finding.kind = "proc.sigfpe";
  if (end.signal == 9) finding.kind = "proc.sigkill";
  if (end.signal == 11) finding.kind = "proc.sigsegv";
  if (end.signal == 15) finding.kind = "proc.sigterm";
  parsers::ProcessExit exit;
  if (end.signal > 0)
    exit.signal = end.signal;
  else
    exit.exit_code = end.exit_code;
  exit.pid = end.pid;
  exit.printer = "triage run";
  finding.pid = end.pid;
  finding.event = exit;
  finding.line = finding.last_line = line;
  finding.text = finding.message = end.signal > 0 ? std::string("the command was ended by signal ") + std::to_string(end.signal)
                                                  : "the command exited with status " + std::to_string(end.exit_code);
  return finding;
}

}  // namespace

int run_command(const RunCommand& command) {
  const auto knowledge = knowledge_or_complain(command.rules);
  if (!knowledge) return kTrouble;
  std::unique_ptr<std::FILE, CloseFile> log;
  if (!command.log.empty()) {
    log.reset(std::fopen(command.log.c_str(), "we"));
    if (!log) {
      complain(parsers::Error(parsers::ErrorCode::io, "the log file cannot be written").at({command.log, {}, {}, {}, {}}).because(std::strerror(errno)));
      return kTrouble;
    }
  }
  signatures::SourceInfo source;
  source.name = command.log.empty() ? "(output of " + command.command.front() + ")" : command.log;
  IntakeStream intake(knowledge, std::move(source), this_year());
  LineMixer mixer;
  const auto sink = [&](std::string_view lines) {
    intake.feed(lines);
    if (log) std::fwrite(lines.data(), 1, lines.size(), log.get());   // faults are told at the end
  };
  const auto ended = run_child(command.command, [&](std::string_view bytes, bool is_stderr) { mixer.add(bytes, is_stderr, sink); });
  if (!ended.ok()) {
    complain(ended.error());
    return ended.error().code() == parsers::ErrorCode::not_found ? 127 : 126;
  }
  mixer.finish(sink);
  errno = 0;
  if (log && (std::fflush(log.get()) != 0 || std::ferror(log.get())))
    complain(parsers::Error(parsers::ErrorCode::io, "the log file is not complete")
                 .at({command.log, {}, {}, {}, {}})
                 .because(errno != 0 ? std::strerror(errno) : "")
                 .help("free space on the disk; the output was passed on and judged all the same"));
  log.reset();
  const int status = ended->shell_status();
  if (status == 0) return 0;

  std::vector<signatures::SourceFindings> sources;
  sources.push_back(intake.finish());
  sources.front().findings.push_back(exit_finding(*ended, sources.front().last_line + 1));
  const Answer answer = judge_sources(*knowledge, std::move(sources), wall_clock());
  const std::string hash = knowledge->rules->hash();
  std::fflush(stdout);
  std::fputs("\n", stderr);
  print_answer(answer, command.format, false, hash, stderr);
  if (!command.database.empty())
    if (const parsers::Status kept = keep_answer(command.database, answer, hash, wall_clock()); !kept.ok()) complain(kept.error());
  return status;
}

}  // namespace triage::daemon
