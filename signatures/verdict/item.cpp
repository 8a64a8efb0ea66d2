#include "signatures/verdict/item.hpp"

#include "parsers/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "signatures/verdict/words.hpp"

namespace triage::signatures {
namespace {

using std::string_view;

// Exceptions that tell of another process' failure or of being told to stop (Python, torch.distributed.elastic, torch.multiprocessing,
// concurrent.futures, Ray).
constexpr std::array<string_view, 19> kWrappers = {
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "ProcessException", "SignalException", "SystemExit",
    "KeyboardInterrupt", "CalledProcessError", "RayActorError", "ActorDiedError", "BrokenProcessPool", "WorkerCrashedError",
    "CancelledError", "TaskCancelledError", "RayTaskError", "ActorUnavailableError", "GeneratorExit", "RendezvousGracefulExitError",
    "TuneError"};
// Exceptions of a broken connection, and of the collectives' own layer: somebody else went first.
constexpr std::array<string_view, 11> kConnection = {
    "BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "EOFError", "DistBackendError",
    "DistNetworkError", "DistStoreError", "RendezvousConnectionError", "RendezvousClosedError", "RendezvousTimeoutError"};
constexpr std::array<string_view, 12> kCollectiveWords = {
    "Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL communicator was aborted", "NCCL error",
    "ncclRemoteError", "ncclSystemError", "gloo/transport", "Gloo connectFullMesh", "inconsistent 0 params",
    "Watchdog caught collective operation timeout", "Socket Timeout"};
constexpr std::array<string_view, 3> kKilledWords = {"is killed by signal: Killed", "is killed by signal: Terminated",
                                                     "exited unexpectedly"};
// Consequences that name no cause (torch's ProcessGroupNCCL and its flight recorder).
constexpr std::array<string_view, 8> kEchoWords = {
    "flight recorder dump signal", "Received a dump signal", "preparing to dump debug info", "Stack trace of the failed collective",
    "Some NCCL operations have failed or timed out", "taking the entire process down", "signal to dump",
    "Failed to check the \"should dump\" flag"};
// NVIDIA's Xid catalogue: codes of the device, its memory, link, bus or firmware.
constexpr std::array<int, 27> kHardwareXids = {46, 48, 54, 56, 57, 58, 61, 62, 63, 64, 65, 66, 74, 79, 92, 94, 95,
                                               110, 119, 120, 121, 122, 123, 140, 143, 145, 149};

Strength of_exception(const Finding& f) {
  const std::string name = exception_name(f);
  const string_view words = words_of(f);
  if (by_another_process(f)) return Strength::wrapper;
  if (one_of(name, kWrappers) || name.starts_with("RayTaskError")) return Strength::wrapper;
  if (any_of(words, kKilledWords)) return Strength::exit;
  if (one_of(name, kConnection) || any_of(words, kCollectiveWords)) return Strength::cascade;
  return Strength::general;
}

Strength of_process(const Finding& f) {
  if (kind_is(f.kind, "proc.sigabrt")) return Strength::abort;
  if (f.role != Role::root) return Strength::exit;
  for (string_view kind : {"proc.sigsegv", "proc.sigbus", "proc.sigfpe", "proc.sigill"})
    if (kind_is(f.kind, kind)) return Strength::local;
  return Strength::exit;
}

}  // namespace

bool kind_is(string_view kind, string_view prefix) {
  while (!prefix.empty() && prefix.back() == '.') prefix.remove_suffix(1);
  return kind.starts_with(prefix) && (kind.size() == prefix.size() || kind[prefix.size()] == '.');
}

std::optional<int> xid_code(string_view kind) {
  constexpr string_view head = "gpu.xid.";
  if (!kind.starts_with(head)) return {};
  kind.remove_prefix(head.size());
  int code = 0;
  const auto [end, error] = std::from_chars(kind.data(), kind.data() + kind.size(), code);
  if (error != std::errc{} || end != kind.data() + kind.size()) return {};
  return code;
}

string_view words_of(const Finding& f) {
  if (f.traceback && !f.traceback->message.empty()) return f.traceback->message;
  return f.message.empty() ? string_view(f.text) : string_view(f.message);
}

std::string exception_name(const Finding& f) {
  string_view name;
  if (f.traceback && !f.traceback->exception.empty()) {
    name = f.traceback->exception;
  } else {
    // "module.Type: message" at the head of the line.
    string_view line = f.message.empty() ? string_view(f.text) : string_view(f.message);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    std::size_t end = 0;
    while (end < line.size() && (parsers::is_alnum(line[end]) || line[end] == '_' || line[end] == '.')) ++end;
    if (end == 0 || end > 120) return {};
    if (end < line.size() && line[end] != ':' && line[end] != '(') return {};
    name = line.substr(0, end);
    const auto dot = name.rfind('.');
    const string_view last = dot == string_view::npos ? name : name.substr(dot + 1);
    if (last.empty() || last.front() < 'A' || last.front() > 'Z') return {};
  }
  const auto paren = name.find('(');
  const auto dot = name.substr(0, paren).rfind('.');
  return std::string(dot == string_view::npos ? name : name.substr(dot + 1));
}

bool corrupts_silently(const Finding& f) {
  // The head or the tail of the warning may be cut off.
  return parsers::contains(f.text, "Failed to clone() tensor") || parsers::contains(f.text, "state_dict entry could point to invalid memory");
}

bool by_another_process(const Finding& f) {
  if (!f.traceback) return false;
  // torch.multiprocessing.spawn raises "-- Process N terminated with the following error" behind an empty first line.
  // The traceback of the process itself starts in the same file, in _wrap.
  return std::any_of(f.traceback->frames.begin(), f.traceback->frames.end(),
                     [](const parsers::Frame& frame) { return parsers::contains(frame.file, "multiprocessing/spawn.py") && frame.function != "_wrap"; });
}

bool is_chain_noise(string_view name) {
  constexpr std::array<string_view, 9> noise = {"KeyError",   "StopIteration", "AttributeError", "IndexError", "ModuleNotFoundError",
                                                "ImportError", "FileNotFoundError", "LookupError", "Empty"};
  return one_of(name, noise);
}

Strength strength_of(const Finding& f) {
  if (f.role == Role::advice || f.role == Role::progress || f.role == Role::fact || f.role == Role::handled) return Strength::none;
  if (std::holds_alternative<parsers::ElasticTable>(f.event)) return Strength::exit;
  if (any_of(words_of(f), kEchoWords) && !std::holds_alternative<parsers::CollectiveTimeout>(f.event)) return Strength::cascade;
  if (kind_is(f.kind, "host.oom")) return Strength::host_oom;
  // A shell that misses a command goes on with the next one.
  if (f.rule.starts_with("launch.") && kind_is(f.kind, "sched.launch")) return f.role == Role::root ? Strength::general : Strength::exit;
  // That a step is ended says what follows a failed task as well as a cancellation.
  if (kind_is(f.kind, "sched")) return f.role == Role::cascade ? Strength::exit : Strength::scheduler;
  if (kind_is(f.kind, "proc")) return of_process(f);
  if (const auto code = xid_code(f.kind)) {
    if (*code == 45 || *code == 154) return Strength::exit;
    return std::find(kHardwareXids.begin(), kHardwareXids.end(), *code) != kHardwareXids.end() ? Strength::hardware
                                                                                             : Strength::application;
  }
  for (string_view kind : {"gpu.sxid", "gpu.fallen_off_bus", "gpu.nvlink", "gpu.init_failed"})
    if (kind_is(f.kind, kind)) return Strength::hardware;
  if (f.system && kind_is(f.kind, "cuda.ecc")) return Strength::hardware;   // the kernel driver's word, not the program's echo of it
  // A mismatch or a wrong call that a rank reports of itself is its own fault, no echo.
  if (f.role == Role::root && (kind_is(f.kind, "nccl.desync") || kind_is(f.kind, "nccl.usage"))) return Strength::local;
  if (kind_is(f.kind, "nccl") || kind_is(f.kind, "dist")) return Strength::collective;
  if (f.role == Role::confirmation) return Strength::exit;
  if (f.role == Role::cascade) return Strength::cascade;
  if (kind_is(f.kind, "user.exception") || f.rule == "python.exception" || kind_is(f.kind, "num.spike")) return of_exception(f);
  return Strength::local;
}

bool same_stream(const Item& a, const Item& b) {
  const Finding& x = *a.finding;
  const Finding& y = *b.finding;
  return a.source == b.source && x.rank == y.rank && x.local_rank == y.local_rank && x.task == y.task && x.actor == y.actor &&
         (x.pid == y.pid || !x.pid || !y.pid);
}

std::optional<double> seconds_between(const Item& a, const Item& b) {
  if (!a.when || !b.when) return {};
  return std::chrono::duration<double>(*b.when - *a.when).count();
}

std::optional<bool> before(const Item& a, const Item& b) {
  if (a.source == b.source) return a.finding->line < b.finding->line;
  const auto gap = seconds_between(a, b);
  if (!gap || *gap == 0) return {};
  return *gap > 0;
}

}  // namespace triage::signatures
