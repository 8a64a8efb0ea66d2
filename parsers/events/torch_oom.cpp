// Out-of-memory texts of PyTorch's caching allocators and of their kin that print the same words.
// Sources: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp (0.4 to 2.11), c10/xpu/XPUCachingAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm;
// Ascend/pytorch NPUCachingAllocator.cpp; vLLM csrc/cumem_allocator.cpp; torch_memory_saver.cpp; bitsandbytes csrc/pythonInterface.cpp.
#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"
#include "parsers/events/message_parsers.hpp"
#include "parsers/events/scan.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace triage::parsers {

namespace {

constexpr std::string_view kTried = " out of memory. Tried to allocate ";
constexpr std::string_view kMps = "MPS backend out of memory (MPS allocated: ";
constexpr std::size_t kProcesses = 1024;  // of one message; a node has fewer

// The event and the printing error of each of its sums.
struct Reading {
  OutOfMemory oom;
  Bytes tolerance;

  // Takes a size that was printed; a meaningless one stays unknown and is told.
  bool take(std::optional<Bytes>& to, const std::optional<Quantity>& from, std::string_view what) {
    if (!from) return false;
    if (from->meaningless) {
      note(std::string(what) + " is printed as a value that was never set");
      return true;
    }
    to = from->bytes;
    tolerance += from->error;
    return true;
  }
  void note(std::string text) {
    oom.sums_agree = false;
    oom.sums_note += (oom.sums_note.empty() ? "" : "; ") + std::move(text);
  }
};

// The word in front of `at`, if it is all upper case: CUDA, HIP, XPU, NPU, MLU, GCU, MUSA, SUPA.
std::string_view backend_word(std::string_view message, std::size_t at) {
  auto start = at;
  while (start > 0 && is_alpha(message[start - 1])) --start;
  const auto word = message.substr(start, at - start);
  if (word.size() < 2 || word.size() > 6) return {};
  for (const char c : word)
    if (c < 'A' || c > 'Z') return {};
  return word;
}

// "GPU ", in other vendors' builds "MLU ": an upper-case word and a blank.
bool device_word(Scan& scan) {
  const auto word = scan.rest().substr(0, scan.rest().find(' '));
  if (word.size() < 2 || word.size() > 6 || word.size() == scan.rest().size()) return false;
  for (const char c : word)
    if (c < 'A' || c > 'Z') return false;
  return scan.word(word) && scan.word(" ");
}

// " (GPU 0; 10.76 GiB total capacity; 9.1 GiB already allocated; 17 MiB free; 46 MiB cached)"
void read_parenthesis(Scan& scan, Reading& reading) {
  OutOfMemory& oom = reading.oom;
  oom.format = "torch";
  oom.truncated = true;
  scan.after("(");
  scan.until("0123456789;");
  oom.device = narrow(scan.integer());
  while (!scan.done()) {
    scan.until(";)");
    if (scan.word(")")) break;
    if (!scan.word(";")) break;
    const auto size = scan.quantity();
    if (!size) continue;
    scan.blanks();
    if (scan.word("total capacity")) reading.take(oom.capacity, size, "the capacity");
    else if (scan.word("already allocated")) reading.take(oom.allocated, size, "allocated");
    else if (scan.word("free")) reading.take(oom.free, size, "free");
    else if (scan.word("allowed")) reading.take(oom.limit, size, "the limit");
    else if (scan.word("reserved in total")) {
      if (reading.take(oom.reserved, size, "reserved")) oom.format = "torch-1.4", oom.truncated = false;
    } else if (scan.word("cached")) {
      // PyTorch 1.0 to 1.3 print cached minus allocated.
      if (reading.take(oom.reserved_unallocated, size, "cached")) oom.format = "torch-1.0", oom.truncated = false;
    }
  }
  if (oom.format == "torch-1.4" && contains(scan.rest(), "max_split_size_mb")) oom.format = "torch-1.10";
}

// ". GPU 0 has a total capacity of X of which F is free. ..."; scan stands behind "has a total ".
void read_sentences(Scan& scan, std::string_view message, Reading& reading) {
  OutOfMemory& oom = reading.oom;
  oom.format = scan.word("capacty of ") ? "torch-2.1" : "torch-2.2";
  oom.truncated = true;
  scan.word("capacity of ");
  if (!reading.take(oom.capacity, scan.quantity(), "the capacity")) return;
  if (scan.word(" of which ")) {
    const auto size = scan.quantity();
    if ((!scan.word(" is free") && !scan.word("is free")) || !reading.take(oom.free, size, "free")) return;
  }
  const auto body = scan.position();
  Scan at(message);
  at.move_to(body);
  while (oom.processes.size() < kProcesses && at.after("Process ")) {
    const auto pid = at.integer();
    if (!pid || !at.word(" has ")) continue;
    const auto size = at.quantity();
    if (!size || !at.word(" memory in use")) continue;
    if (size->meaningless) {
      reading.note("the memory of process " + std::to_string(*pid) + " is printed as a value that was never set");
      continue;
    }
    oom.processes.push_back({*pid, size->bytes});
    reading.tolerance += size->error;
  }
  at.move_to(body);
  if (at.after("this process has ")) {
    const auto size = at.quantity();
    if (size && size->bytes == Bytes(0) && !size->meaningless)
      reading.note("the driver shows 0 bytes for this process (it does not see it, as in a container)");
    else if (size && at.rest().starts_with(" mem"))
      reading.take(oom.in_use, size, "this process's memory");
  }
  at.move_to(body);
  if (at.after(" allowed;")) {  // "N allowed; " in front of "Of the allocated memory"
    Scan limit(message.substr(body, at.position() - body));
    while (limit.after(". ")) {
      const auto size = limit.quantity();
      if (size && limit.word(" allowed;")) {
        reading.take(oom.limit, size, "the limit");
        break;
      }
    }
  }
  at.move_to(body);
  if (!at.after("Of the allocated memory ")) return;
  const auto allocated = at.quantity();
  if (!allocated || !at.word(" is allocated by PyTorch")) return;
  reading.take(oom.allocated, allocated, "allocated");
  if (at.word(", with ")) {
    const auto pools = at.quantity();
    if (!at.word(" allocated in private pools") || !reading.take(oom.private_pools, pools, "private pools")) return;
    at.after("),");
  } else {
    at.word(",");
  }
  if (!at.word(" and ")) return;
  const auto unallocated = at.quantity();
  if (!at.word(" is reserved by PyTorch but unallocated")) return;
  reading.take(oom.reserved_unallocated, unallocated, "reserved but unallocated");
  oom.truncated = false;
}

std::string more_than(std::string_view what, Bytes sum, std::string_view of, Bytes whole) {
  return std::string(what) + " (" + bytes_text(sum) + ") is more than " + std::string(of) + " (" + bytes_text(whole) + ")";
}

// allocated + unallocated <= in_use; in_use + other processes <= capacity - free; all within what rounding to the printed digits explains.
void check_sums(Reading& reading) {
  OutOfMemory& oom = reading.oom;
  if (!oom.reserved && oom.allocated && oom.reserved_unallocated) oom.reserved = *oom.allocated + *oom.reserved_unallocated;
  if (oom.reserved && oom.allocated && !oom.reserved_unallocated) {
    if (*oom.reserved + reading.tolerance < *oom.allocated)
      reading.note(more_than("allocated", *oom.allocated, "reserved", *oom.reserved));
    else
      oom.reserved_unallocated = std::max(Bytes(0), *oom.reserved - *oom.allocated);
  }
  const auto own = oom.reserved ? oom.reserved : oom.allocated;
  if (own && oom.in_use && *own > *oom.in_use + reading.tolerance)
    reading.note(more_than("what PyTorch holds", *own, "what the process has in use", *oom.in_use));
  if (!oom.capacity) return;
  if (own && *own > *oom.capacity + reading.tolerance) {
    reading.note(more_than("what PyTorch holds", *own, "the device's capacity", *oom.capacity) +
                 ": part of it lies in host memory, or the counters are wrong");
    return;
  }
  if (!oom.free) return;
  const auto taken = *oom.capacity - *oom.free;
  auto sum = oom.in_use.value_or(Bytes(0));
  for (const auto& process : oom.processes) sum += process.bytes;
  if (sum > taken + reading.tolerance) {
    reading.note(more_than("what the processes have in use", sum, "capacity minus free", taken));
  } else if (own && *own > taken + reading.tolerance) {
    reading.note(more_than("what PyTorch holds", *own, "capacity minus free", taken));
  }
}

Event read_mps(std::string_view message, std::size_t at) {
  Reading reading;
  OutOfMemory& oom = reading.oom;
  oom.backend = "mps";
  oom.format = "mps";
  oom.truncated = true;
  Scan scan(message);
  scan.move_to(at + kMps.size());
  if (reading.take(oom.allocated, scan.quantity(), "allocated") && scan.word(", other allocations: ")) {
    if (const auto other = scan.quantity(); other && !other->meaningless && oom.allocated) oom.in_use = *oom.allocated + other->bytes;
    if (scan.word(", max allowed: ")) reading.take(oom.limit, scan.quantity(), "the limit");
  }
  if (scan.after("Tried to allocate ") && reading.take(oom.tried, scan.quantity(), "the request"))
    oom.truncated = !(scan.word(" on private pool") || scan.word(" on shared pool"));
  return oom;
}

// Texts without sizes, most special first; the second word decides the backend.
struct Bare {
  std::string_view text, backend, format;
};
constexpr std::array<Bare, 17> kBare{{
    {"cuda runtime error (2) : out of memory", "cuda", "torch-0.4"},
    {"THCudaCheck FAIL", "cuda", "torch-0.4"},
    {"CUDA error: out of memory", "cuda", "cuda-error"},
    {"CUDA driver error: out of memory", "cuda", "cuda-driver"},
    {"HIP error: out of memory", "hip", "hip-error"},
    {"hipErrorOutOfMemory", "hip", "hip-error"},
    {"CUDA Error: out of memory at ", "cuda", "cumem"},
    {"CUresult error: 2 (out of memory)", "cuda", "cumem"},
    {"Triton Error [CUDA]: out of memory", "cuda", "triton-driver"},
    {"Triton Error [HIP]: ", "hip", "triton-driver"},
    {"CUBLAS_STATUS_ALLOC_FAILED", "cuda", "cublas"},
    {"HIPBLAS_STATUS_ALLOC_FAILED", "hip", "cublas"},
    {"CUDNN_STATUS_ALLOC_FAILED", "cuda", "cudnn"},
    {"Error out of memory at line ", "cuda", "bitsandbytes"},
    {"cudaErrorMemoryAllocation", "cuda", "cuda-error"},
    {"CUDA_ERROR_OUT_OF_MEMORY", "cuda", "cuda-driver"},
    {"XPU out of memory", "xpu", "xpu"},
}};

Event read_bare(std::string_view message) {
  for (const Bare& bare : kBare) {
    if (!contains(message, bare.text)) continue;
    if ((bare.text == "THCudaCheck FAIL" || bare.text == "Triton Error [HIP]: ") && !contains(message, "out of memory")) continue;
    OutOfMemory oom;
    oom.backend = bare.backend;
    oom.format = bare.format;
    return oom;
  }
  return {};
}

// The first "<BACKEND> out of memory. Tried to allocate "; npos if there is none.
std::size_t find_tried(std::string_view message) {
  for (auto at = message.find(kTried); at != std::string_view::npos; at = message.find(kTried, at + 1))
    if (!backend_word(message, at).empty()) return at;
  return std::string_view::npos;
}

}  // namespace

Event read_torch_oom(std::string_view message) {
  if (const auto at = message.find(kMps); at != std::string_view::npos) return read_mps(message, at);
  const auto at = find_tried(message);
  if (at == std::string_view::npos) return read_bare(message);

  Reading reading;
  OutOfMemory& oom = reading.oom;
  oom.backend = lower(backend_word(message, at));
  Scan scan(message);
  scan.move_to(at + kTried.size());
  if (scan.word("more than 1EB memory")) {
    oom.format = "torch-1eb";
    return oom;
  }
  if (!reading.take(oom.tried, scan.quantity(), "the request")) {
    oom.format = "torch";
    oom.truncated = true;
    return oom;
  }
  Scan next(scan);
  next.blanks();
  if (next.peek() == '(') {
    read_parenthesis(next, reading);
  } else if (next.word(". ") && device_word(next)) {
    oom.device = narrow(next.integer());
    next.blanks();
    if (next.word("has a total ")) read_sentences(next, message, reading);
    else oom.format = "torch", oom.truncated = true;
  } else {
    oom.format = "torch";
    oom.truncated = true;
  }
  if (oom.backend == "xpu" || oom.backend == "npu") oom.format = oom.backend;
  check_sums(reading);
  return oom;
}

}  // namespace triage::parsers
