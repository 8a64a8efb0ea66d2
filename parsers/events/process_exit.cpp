// How a process ended, as launchers print it: torchrun, DeepSpeed, accelerate, mpirun, Ray, DataLoader, torch.multiprocessing, systemd, LSF.
// Sources: pytorch/pytorch torch/distributed/elastic/multiprocessing/{api,errors}.py, torch/multiprocessing/spawn.py, torch/utils/data;
// deepspeedai/DeepSpeed deepspeed/launcher/launch.py; open-mpi/ompi orterun help texts; pmodels/mpich hydra; ray-project/ray src/ray/raylet.
#include "parsers/base/text.hpp"
#include "parsers/events/exit_status.hpp"
#include "parsers/events/message_parsers.hpp"
#include "parsers/events/scan.hpp"

#include <array>
#include <string>

namespace triage::parsers {

namespace {

std::optional<std::int64_t> number_after(std::string_view message, std::string_view mark) {
  Scan scan(message);
  return scan.after(mark) ? scan.integer() : std::nullopt;
}

// "failed (exitcode: -9) local_rank: 3 (pid: 123) of binary: ...", "  exitcode  : 1 (pid: 19418)", "Signal 15 (SIGTERM) received by PID 518"
bool read_torchrun(std::string_view message, ProcessExit& exit) {
  exit.printer = "torchrun";
  Scan scan(message);
  if (scan.after("(exitcode: ") || (trim(message).starts_with("exitcode") && (scan.until(":"), scan.word(":")))) {
    const auto status = scan.integer();
    if (!status || !enter_status(exit, *status)) return false;
    exit.local_rank = rank_number(number_after(message, "local_rank: "));
    exit.pid = number_after(message, "(pid: ");
    return true;
  }
  if (scan.after("ignal ")) {
    const auto signal = narrow(scan.integer());
    if (signal && *signal > 0 && *signal <= 64 && scan.after("received by PID ")) {
      exit.signal = signal;
      exit.pid = scan.integer();
      return true;
    }
  }
  scan.move_to(0);
  if (scan.after("Process ")) {  // SignalException: Process 123 got signal: 15
    const auto pid = scan.integer();
    if (!pid || !scan.word(" got signal: ")) return false;
    exit.pid = pid;
    exit.signal = narrow(scan.integer());
    return exit.signal && *exit.signal > 0 && *exit.signal <= 64;
  }
  return false;
}

// The printed command is that of the last process launched, not of the one that failed: no rank from it.
bool read_deepspeed(std::string_view message, ProcessExit& exit) {
  const auto status = number_after(message, "exits with return code = ");
  exit.printer = "deepspeed";
  return status && enter_status(exit, *status);
}

// subprocess.CalledProcessError, as accelerate and torch.distributed.launch raise it.
bool read_subprocess(std::string_view message, ProcessExit& exit) {
  exit.printer = contains(message, "accelerate") ? "accelerate" : "python";
  Scan scan(message);
  if (scan.after(" died with <Signals.")) {
    exit.signal = signal_of_word(scan.rest());
    return exit.signal.has_value();
  }
  const auto status = number_after(message, "returned non-zero exit status ");
  return status && enter_status(exit, *status);
}

bool read_mpi(std::string_view message, ProcessExit& exit) {
  exit.printer = "mpirun";
  Scan scan(message);
  if (scan.after(" noticed that process rank ")) {
    exit.rank = rank_number(scan.integer());
    if (const auto pid = number_after(message, " with PID "); pid && *pid > 0) exit.pid = pid;
    Scan node(message);
    if (node.after(" on node ")) exit.node = std::string(node.until(" "));
    if (const auto signal = narrow(number_after(message, "exited on signal ")); signal && *signal > 0 && *signal <= 64) exit.signal = signal;
    if (const auto status = number_after(message, "exited with status ")) enter_status(exit, *status);
    return exit.signal || exit.exit_code || contains(message, " exited on");   // Open MPI 5 breaks the sentence here
  }
  if (scan.after("KILLED BY SIGNAL: ")) {
    exit.signal = narrow(scan.integer());
    return exit.signal && *exit.signal > 0 && *exit.signal <= 64;
  }
  if (scan.after("THE EXIT STRING: ")) {
    exit.signal = signal_of_word(scan.rest());
    return exit.signal.has_value();
  }
  if (scan.after("=   EXIT CODE: ")) {
    const auto status = scan.integer();  // a signal's number, or the exit code times 256
    if (!status) return false;
    return enter_status(exit, *status > 255 ? *status / 256 : *status);
  }
  return false;
}

// "rank 3 died from signal 11 and dumped core", "rank 9 exited with code 1" (HPE PALS), "(first noticed rank 0) terminated with signal 9"
// (IBM jsrun), "PE RANK 3 exit signal Killed" (Cray ALPS).
bool read_vendor_launcher(std::string_view message, ProcessExit& exit) {
  Scan scan(message);
  const bool alps = scan.after("PE RANK ");
  if (!alps) scan.move_to(0);
  if (!alps && !scan.after("rank ")) return false;
  exit.printer = alps ? "aprun" : "mpiexec";
  exit.rank = rank_number(scan.integer());
  if (!exit.rank) return false;
  if (alps) {
    if (!scan.word(" exit signal ")) return false;
    exit.signal = signal_of_word(scan.rest());
    return exit.signal.has_value();
  }
  if (scan.word(" exited with code ")) {
    const auto status = scan.integer();
    return status && enter_status(exit, *status);
  }
  if (!scan.word(" died from signal ") && !scan.word(") terminated with signal ")) return false;
  exit.signal = narrow(scan.integer());
  return exit.signal && *exit.signal > 0 && *exit.signal <= 64;
}

// Ray's text on a dead worker names an OOM killer as one of several guesses: no evidence. "memory pressure" is Ray's own memory monitor.
bool read_ray(std::string_view message, ProcessExit& exit) {
  exit.printer = "ray";
  if (contains(message, "killed due to memory pressure (OOM)") || contains(message, "due to the node running low on memory") ||
      contains(message, "exceeds the memory usage threshold")) {
    exit.out_of_memory = true;
    exit.reason = "memory pressure";
  } else if (!contains(message, "Worker exit type: ") && !contains(message, "A worker died or was killed")) {
    return false;
  }
  Scan reason(message);
  if (reason.after("Worker exit type: ")) exit.reason = std::string(reason.until(" .\n"));
  exit.pid = number_after(message, "Worker PID: ");
  for (const std::string_view mark : {"Worker IP address: ", "where the task was running was "}) {
    Scan node(message);
    if (node.after(mark)) exit.node = std::string(node.until(" ,\n"));
  }
  Scan node(message);
  if (exit.node.empty() && (node.after("on node (IP: ") || node.after("on the node (IP: "))) exit.node = std::string(node.until(",)"));
  return true;
}

bool read_workers(std::string_view message, ProcessExit& exit) {
  Scan scan(message);
  if (scan.after("DataLoader worker (pid")) {
    exit.printer = "dataloader";
    scan.word("(s)");
    exit.pid = scan.integer();
    if (scan.after("is killed by signal: ")) {
      exit.signal = signal_of_word(scan.rest());
      return true;
    }
    return contains(scan.rest(), "exited unexpectedly");
  }
  // "process 2 terminated with signal SIGKILL", "process 0 terminated with exit code 1"
  if (scan.after("process ") || scan.after("Process ")) {
    const auto index = rank_number(scan.integer());
    if (!index || !scan.word(" terminated with ")) return false;
    exit.printer = "torch-spawn";
    exit.local_rank = index;
    if (scan.word("signal ")) exit.signal = signal_of_word(scan.rest());
    else if (const auto status = number_after(scan.rest(), "exit code ")) enter_status(exit, *status);
    return exit.signal || exit.exit_code;
  }
  return false;
}

// "main process exited, code=killed, status=9/KILL", "Failed with result 'oom-kill'."
bool read_systemd(std::string_view message, ProcessExit& exit) {
  exit.printer = "systemd";
  if (contains(message, "Failed with result 'oom-kill'") || contains(message, "has been killed by the OOM killer")) {
    exit.out_of_memory = true;
    exit.reason = "oom-kill";
    return true;
  }
  Scan scan(message);
  if (!scan.after("process exited, code=")) return false;
  const auto code = scan.until(",");
  const auto status = number_after(scan.rest(), "status=");
  if (!status) return false;
  return code == "exited" ? enter_status(exit, *status) : enter_status(exit, -*status);
}

bool read_batch(std::string_view message, ProcessExit& exit) {
  exit.printer = "batch";
  if (contains(message, "TERM_MEMLIMIT")) {
    exit.out_of_memory = true;
    exit.reason = "TERM_MEMLIMIT";
    return true;
  }
  if (contains(message, "TERM_RUNLIMIT")) {
    exit.reason = "TERM_RUNLIMIT";
    return true;
  }
  return false;
}

// Any "exit code 1", "exit status: 1", "exitcode=1".
bool read_generic(std::string_view message, ProcessExit& exit) {
  exit.printer = "generic";
  const auto text = lower(message);
  for (const std::string_view mark : {"exit code", "exitcode", "exit status", "return code", "exit_code"}) {
    Scan scan(text);
    while (scan.after(mark)) {
      Scan at(scan);
      at.blanks();
      if (!at.word(":")) at.word("=");
      at.word(" of");
      const auto status = at.integer();
      if (status && !is_word(at.peek()) && at.peek() != '.' && enter_status(exit, *status)) return true;
      if (status && at.peek() == '.' && enter_status(exit, *status)) return true;
    }
  }
  return false;
}

using Reader = bool (*)(std::string_view, ProcessExit&);
constexpr std::array<Reader, 13> kReaders{read_torchrun, read_deepspeed, read_slurm_exit, read_mpi, read_vendor_launcher, read_ray, read_workers,
                                          read_subprocess, read_systemd,  read_container_exit, read_batch, read_shell_exit, read_generic};

}  // namespace

Event read_container_end(std::string_view message) {
  ProcessExit exit;
  if (!read_container_exit(message, exit)) return {};
  return exit;
}

Event read_process_exit(std::string_view message) {
  for (const Reader reader : kReaders) {
    ProcessExit exit;
    if (reader(message, exit)) return exit;
  }
  return {};
}

}  // namespace triage::parsers
