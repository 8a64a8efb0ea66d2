#include "parsers/events/exit_status.hpp"

#include "parsers/base/text.hpp"
#include "parsers/events/scan.hpp"

#include <array>
#include <string>

namespace triage::parsers {

namespace {

struct SignalWord {
  std::string_view word;
  int number;
};
// glibc's strsignal texts and the names; longer ones first where one starts another.
constexpr std::array<SignalWord, 30> kSignals{{
    {"Killed", 9}, {"Segmentation fault", 11}, {"Aborted", 6}, {"Bus error", 7}, {"Terminated", 15}, {"Floating point exception", 8},
    {"Illegal instruction", 4}, {"Interrupt", 2}, {"Hangup", 1}, {"Quit", 3}, {"Trace/breakpoint trap", 5}, {"User defined signal 1", 10},
    {"User defined signal 2", 12}, {"Broken pipe", 13}, {"Bad system call", 31}, {"CPU time limit exceeded", 24},
    {"SIGKILL", 9}, {"SIGSEGV", 11}, {"SIGABRT", 6}, {"SIGBUS", 7}, {"SIGTERM", 15}, {"SIGFPE", 8}, {"SIGILL", 4}, {"SIGINT", 2},
    {"SIGHUP", 1}, {"SIGQUIT", 3}, {"SIGTRAP", 5}, {"SIGUSR1", 10}, {"SIGUSR2", 12}, {"SIGPIPE", 13},
}};

// "0:125" of sacct and scontrol: code and signal; 125 in place of a signal is Slurm's mark of the memory limit.
bool read_code_pair(Scan& scan, ProcessExit& exit) {
  Scan at(scan);
  const auto code = at.integer();
  if (!code || *code < 0 || *code > 255 || !at.word(":")) return false;
  const auto signal = at.integer();
  if (!signal || *signal < 0 || *signal > 255 || is_word(at.peek())) return false;
  enter_status(exit, *code);
  if (*signal == 125) exit.out_of_memory = true;
  else if (*signal > 0 && *signal <= 64) exit.signal = static_cast<int>(*signal);
  scan = at;
  return true;
}

// "srun: error: node01: task 3: Killed", "srun: error: n[1-2]: tasks 0-3,5: Exited with exit code 1"
bool read_srun(std::string_view message, ProcessExit& exit) {
  Scan scan(message);
  if (!scan.after("srun: error: ") && !scan.word("error: ")) return false;
  const auto node = scan.until(" ");
  if (node.size() < 2 || node.back() != ':') return false;
  scan.blanks();
  if (!scan.word("task ") && !scan.word("tasks ")) return false;
  exit.task = rank_number(scan.integer());
  if (!exit.task) return false;
  scan.until(":");
  if (!scan.word(":")) return false;
  scan.blanks();
  exit.node = std::string(node.substr(0, node.size() - 1));
  exit.printer = "srun";
  if (scan.word("Out Of Memory")) {
    exit.out_of_memory = true;
    exit.reason = "Out Of Memory";
  } else if (scan.word("Exited with exit code")) {
    const auto code = scan.integer();
    return code && enter_status(exit, *code);
  } else {
    exit.signal = signal_of_word(scan.rest());
    if (!exit.signal) return false;
  }
  return true;
}

// "slurmstepd: error: Detected 1 oom_kill event in StepId=5.0. ...", "slurmstepd: error: *** STEP 5.0 ON node CANCELLED AT ... DUE TO TIME LIMIT ***"
bool read_slurmstepd(std::string_view message, ProcessExit& exit) {
  Scan scan(message);
  if (scan.after("Detected ") && scan.integer()) {
    scan.blanks();
    if (!scan.word("oom_kill event") && !scan.word("oom-kill event")) return false;
    exit.out_of_memory = true;
    exit.reason = "oom_kill event";
    exit.signal = 9;
    exit.printer = "slurm";
    return true;
  }
  Scan cancelled(message);
  if (!cancelled.after("*** JOB ") && !Scan(message).after("*** STEP ")) return false;
  Scan node(message);
  if (!node.after(" ON ")) return false;
  exit.node = std::string(node.until(" "));
  if (!node.word(" CANCELLED AT ")) return false;
  node.until(" *");
  node.blanks();
  exit.reason = "CANCELLED";
  if (const auto why = trim(node.until("*")); !why.empty()) exit.reason += " " + std::string(why);
  exit.printer = "slurm";
  return true;
}

}  // namespace

std::optional<int> signal_of_word(std::string_view text) {
  for (const auto& signal : kSignals)
    if (text.starts_with(signal.word)) return signal.number;
  return std::nullopt;
}

bool enter_status(ProcessExit& exit, std::int64_t status) {
  if (status < 0) {
    if (status < -64) return false;
    exit.signal = static_cast<int>(-status);
    return true;
  }
  if (status > 255) return false;
  exit.exit_code = static_cast<int>(status);
  if (status > 128 && status <= 128 + 64) exit.signal = static_cast<int>(status - 128);
  return true;
}

bool read_slurm_exit(std::string_view message, ProcessExit& exit) {
  if (contains(message, "task") && read_srun(message, exit)) return true;
  if (read_slurmstepd(message, exit)) return true;
  // scontrol, sacct, seff and mails: a state and, where printed, CODE:SIGNAL.
  static constexpr std::array<std::string_view, 9> kStates{"OUT_OF_MEMORY", "OUT_OF_ME+", "NODE_FAIL", "TIMEOUT", "PREEMPTED",
                                                           "CANCELLED", "DEADLINE", "BOOT_FAIL", "FAILED"};
  Scan code(message);
  bool pair = false;
  if (code.after("ExitCode=") || (code.move_to(0), code.after("ExitCode "))) pair = read_code_pair(code, exit);
  for (const auto state : kStates) {
    const auto at = message.find(state);
    if (at == std::string_view::npos) continue;
    const bool labelled = contains(message.substr(0, at), "State") || contains(message, "Job_id=") || contains(message, "JobId=");
    if (!pair) {
      Scan scan(message);
      scan.move_to(at + state.size());
      scan.blanks();
      pair = read_code_pair(scan, exit);
    }
    if (!labelled && !pair) continue;
    exit.reason = state == "OUT_OF_ME+" ? "OUT_OF_MEMORY" : state;
    if (exit.reason == "OUT_OF_MEMORY") exit.out_of_memory = true;
    exit.printer = "slurm";
    return true;
  }
  if (pair) exit.printer = "slurm";
  return pair;
}

bool read_container_exit(std::string_view message, ProcessExit& exit) {
  Scan scan(message);
  if (scan.after("OOMKilled")) {
    // docker inspect: "OOMKilled": false
    const auto rest = scan.rest().substr(0, 12);
    if (contains(rest, "false")) return false;
    exit.out_of_memory = true;
    exit.reason = "OOMKilled";
    exit.printer = "kubernetes";
    for (const std::string_view mark : {"exitCode", "Exit Code", "exit code"}) {
      Scan code(message);
      if (!code.after(mark)) continue;
      code.word("\"");
      code.word(":");
      if (const auto status = code.integer()) enter_status(exit, *status);
    }
    return true;
  }
  if (scan.after("he node was low on resource: ") || contains(message, "evicted by the kubelet") || contains(message, "Evicted pod")) {
    exit.out_of_memory = scan.rest().starts_with("memory");
    exit.reason = "Evicted: " + std::string(trim(message).substr(0, 512));
    exit.printer = "kubernetes";
    return true;
  }
  if (scan.after("command terminated with exit code ")) {
    exit.printer = "kubernetes";
  } else if (scan.after(" exited with code ") || scan.after("Exited (")) {
    exit.printer = "docker";
  } else {
    return false;
  }
  const auto status = scan.integer();
  return status && enter_status(exit, *status);
}

bool read_shell_exit(std::string_view message, ProcessExit& exit) {
  const auto text = trim(message);
  exit.printer = "shell";
  // "Killed", "Segmentation fault (core dumped)": nothing but the word
  if (const auto signal = signal_of_word(text); signal && text.size() < 48 && !text.starts_with("SIG")) {
    const auto dumped = text.find("(core dumped)");
    const auto word = trim(text.substr(0, dumped));
    if (word.size() < 26 && !contains(word, ":") && (dumped != std::string_view::npos || !contains(word.substr(4), "  "))) {
      static constexpr std::array<std::string_view, 7> kAlone{"Killed", "Segmentation fault", "Aborted", "Bus error", "Terminated",
                                                             "Floating point exception", "Illegal instruction"};
      for (const auto alone : kAlone) {
        if (word != alone) continue;
        exit.signal = signal;
        return true;
      }
    }
  }
  // "./run.sh: line 12: 12345 Killed                  python train.py"
  Scan scan(message);
  if (!scan.after(": line ") || !scan.integer() || !scan.word(":")) return false;
  const auto pid = scan.integer();
  if (!pid) return false;
  scan.blanks();
  exit.signal = signal_of_word(scan.rest());
  exit.pid = pid;
  return exit.signal.has_value();
}

}  // namespace triage::parsers
