#include "signatures/verdict/dump_finding.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "signatures/verdict/exits.hpp"
#include "signatures/verdict/flight_recorder.hpp"

namespace triage::signatures {
namespace {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string where_of(const parsers::CoreThread& thread) {
  if (!thread.library.empty()) return base_name(thread.library) + "+" + hex(thread.offset);
  return thread.instruction_pointer == 0 ? "a jump to address 0" : "code outside of any library (" + hex(thread.instruction_pointer) + ")";
}

// A stopped or living process: no signal, SIGSTOP or SIGTRAP (gdb's generate-core-file).
bool alive(const parsers::CoreFile& core) { return core.signal == 0 || core.signal == 19 || core.signal == 5; }

// The kernel's own words for the signal, and the address where there is one.
std::string signal_text(const parsers::CoreFile& core) {
  std::string out = parsers::signal_name(core.signal);
  if (core.fault_address) out += " at address " + hex(*core.fault_address);
  const std::string words = core.code ? parsers::fault_words(core.signal, *core.code) : std::string();
  if (!words.empty()) out += " (" + words + ")";
  return out;
}

std::string process_text(const parsers::CoreFile& core) {
  std::string out = "process";
  if (!core.program.empty()) out += " " + core.program;
  if (core.pid) out += " (pid " + std::to_string(*core.pid) + ")";
  return out;
}

std::string dim(const parsers::CudaException::Dim& d) {
  return "(" + std::to_string(d[0]) + "," + std::to_string(d[1]) + "," + std::to_string(d[2]) + ")";
}

std::string exception_text(const parsers::CudaCore& core, const parsers::CudaException& e) {
  std::string out = e.name;
  out += e.kernel.empty() ? " in an unknown kernel" : " in kernel " + e.kernel;
  if (!e.kernel.empty() && e.error_pc) out += "+" + hex(e.kernel_offset);
  if (e.block) out += ", block " + dim(*e.block);
  if (e.thread) out += ", thread " + dim(*e.thread);
  out += ", on device " + std::to_string(e.device);
  for (const auto& device : core.devices)
    if (device.id == e.device && !device.name.empty()) out += " (" + device.name + ")";
  return out + ", SM " + std::to_string(e.sm);
}

// CUDBGException_t as the driver's errors name them.
std::string kind_of_exception(std::uint32_t code) {
  switch (code) {
    case 1: case 5: case 7: case 10: case 14: case 15: case 16: case 17: return "cuda.illegal_access";
    case 4: case 8: return "cuda.illegal_instruction";
    case 6: case 11: return "cuda.misaligned";
    case 12: return "cuda.device_assert";
    default: return "cuda.launch_failure";
  }
}

Finding dump(std::string rule, std::string kind, Role role, std::string text) {
  Finding f;
  f.rule = std::move(rule);
  f.kind = std::move(kind);
  f.role = role;
  f.text = text;
  f.message = std::move(text);
  return f;
}

}  // namespace

Finding finding_of_core(parsers::CoreFile core) {
  Ending ending;
  ending.signal = core.signal;
  const bool dead = !alive(core);
  std::string text = "core dump of " + process_text(core) + ": ";
  text += dead ? signal_text(core) : "the process was alive";
  if (!core.threads.empty()) text += " in " + where_of(core.threads.front());
  text += ", " + std::to_string(core.thread_count) + " threads";
  if (core.truncated) text += "; the dump is cut";
  Finding f = dump("dump.core", kind_of_ending(ending), dead ? Role::root : Role::fact, std::move(text));
  f.pid = core.pid;
  f.rank = core.rank;
  f.local_rank = core.local_rank;
  f.fixes = {"process"};
  if (dead) {
    f.summary = "The " + process_text(core) + " died of " + signal_text(core);
    if (!core.threads.empty()) f.summary += " in " + where_of(core.threads.front());
    f.summary += ".";
    f.help = "Resolve the address: addr2line -Cfe LIBRARY OFFSET, or gdb " + (core.program.empty() ? std::string("PROGRAM") : core.program) +
             " CORE and 'thread apply all bt'.";
    if (!core.threads.empty()) {
      parsers::Traceback trace;
      trace.language = parsers::Traceback::Language::cpp;
      trace.exception = parsers::signal_name(core.signal);
      const auto& thread = core.threads.front();
      trace.frames.push_back({thread.library, 0, thread.library.empty() ? hex(thread.instruction_pointer) : "+" + hex(thread.offset), {}});
      f.traceback = std::move(trace);
    }
  }
  f.captures.push_back({"signal", static_cast<std::int64_t>(core.signal)});
  f.event = std::make_shared<const parsers::CoreFile>(std::move(core));
  return f;
}

Finding finding_of_cuda_core(parsers::CudaCore core) {
  if (core.exceptions.empty()) {
    std::string text = "CUDA core dump without an exception";
    for (const auto& kernel : core.kernels)
      if (!kernel.name.empty()) text += (text.back() == 'n' ? "; on the device: " : ", ") + kernel.name;
    Finding f = dump("dump.cuda_core", "cuda.launch_failure", Role::fact, std::move(text));
    f.event = std::make_shared<const parsers::CudaCore>(std::move(core));
    return f;
  }
  const auto& first = core.exceptions.front();
  std::string text = "CUDA core dump: " + exception_text(core, first);
  if (core.exceptions.size() > 1) text += "; " + std::to_string(core.exceptions.size() - 1) + " more places";
  if (core.truncated) text += "; the dump is cut";
  Finding f = dump("dump.cuda_core", kind_of_exception(first.code), Role::root, std::move(text));
  f.device = first.device;
  f.pid = core.host_thread;
  f.fixes = {"device"};
  f.summary = exception_text(core, first) + ".";
  f.help = "cuda-gdb with 'target cudacore FILE' shows registers and the disassembly; compute-sanitizer on a short run names the access.";
  if (!first.kernel.empty()) {
    parsers::Traceback trace;
    trace.language = parsers::Traceback::Language::cuda;
    trace.exception = first.name;
    trace.frames.push_back({{}, 0, first.kernel, {}});
    f.traceback = std::move(trace);
  }
  f.event = std::make_shared<const parsers::CudaCore>(std::move(core));
  return f;
}

Finding finding_of_recording(parsers::Recording recording, std::optional<int> rank) {
  if (!rank) rank = recording.rank;
  const bool open = !recording.pending.empty();
  Finding f = dump("dump.flight_recorder", "nccl.timeout", open ? Role::root : Role::fact, recording_text(recording, rank));
  f.rank = rank;
  f.fixes = {"collective"};
  f.help = "Look at what the named ranks did at that moment: their own log and stack (py-spy dump), their node's kernel log and device.";
  f.event = std::make_shared<const parsers::Recording>(std::move(recording));
  return f;
}

bool is_dump(const Finding& f) {
  return std::holds_alternative<parsers::CoreFileEvent>(f.event) || std::holds_alternative<parsers::CudaCoreEvent>(f.event) ||
         std::holds_alternative<parsers::RecordingEvent>(f.event);
}

std::string dump_reason(const Finding& f) {
  if (const auto* core = std::get_if<parsers::CoreFileEvent>(&f.event); core != nullptr && *core) return f.text;
  if (const auto* cuda = std::get_if<parsers::CudaCoreEvent>(&f.event); cuda != nullptr && *cuda) return f.text;
  return {};
}

}  // namespace triage::signatures
