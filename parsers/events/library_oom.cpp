// Out-of-memory texts of allocators other than PyTorch's: CuPy, NCCL, and Triton's shared memory.
// Sources: cupy/cupy cupy/cuda/memory.pyx; NVIDIA/nccl src/include/alloc.h, checks.h; triton-lang/triton python/triton/runtime/errors.py.
#include "parsers/base/text.hpp"
#include "parsers/events/message_parsers.hpp"
#include "parsers/events/scan.hpp"

#include <array>

namespace triage::parsers {

namespace {

bool take(std::optional<Bytes>& to, const std::optional<Quantity>& from) {
  if (!from || from->meaningless) return false;
  to = from->bytes;
  return true;
}

// "host:pid:tid [3] include/alloc.h:178 NCCL WARN ...": the number is the CUDA device.
std::optional<int> nccl_device(std::string_view message) {
  for (auto at = message.find('['); at != std::string_view::npos; at = message.find('[', at + 1)) {
    Scan scan(message);
    scan.move_to(at + 1);
    if (!is_digit(scan.peek())) continue;
    const auto device = rank_number(scan.integer());
    if (scan.word("] ")) return device;
  }
  return std::nullopt;
}

}  // namespace

// "Out of memory allocating 8,589,934,592 bytes (allocated so far: 146,028,888,064 bytes, limit set to: 1,073,741,824 bytes)."
Event read_cupy_oom(std::string_view message) {
  Scan scan(message);
  if (!scan.after("Out of memory allocating ")) return {};
  OutOfMemory oom;
  oom.backend = "cuda";
  oom.format = "cupy";
  oom.truncated = true;
  if (!take(oom.tried, scan.quantity()) || !scan.word(" (allocated so far: ")) return oom;
  if (!take(oom.allocated, scan.quantity())) return oom;
  if (scan.word(", limit set to: ")) take(oom.limit, scan.quantity());
  oom.truncated = !scan.word(")");
  return oom;
}

Event read_triton_resources(std::string_view message) {
  Scan scan(message);
  if (!scan.after("out of resource: ")) return {};
  // "out of resource: shared memory, Required: N, Hardware limit: M." or, of Inductor's launcher, "KERNEL Required: N Hardware limit:M".
  OutOfMemory oom;
  const auto name = scan.position();
  oom.truncated = true;
  if (!scan.after("Required: ")) {
    oom.format = "triton";
    return oom;
  }
  const auto resource = message.substr(name, scan.position() - name - std::string_view("Required: ").size());
  const bool shared = contains(resource, "shared memory");
  // Inductor prints the kernel's name in place of the resource; only shared memory is checked there.
  const bool other = !shared && (contains(resource, "threads") || contains(resource, "registers") || contains(resource, "tensor memory"));
  oom.format = other ? "triton" : "triton-shared-memory";
  const auto required = scan.integer();
  if (required && scan.after("limit:")) {
    const auto limit = scan.integer();
    oom.truncated = !limit;
    if (limit && !other) {
      oom.tried = Bytes(*required);
      oom.limit = Bytes(*limit);
    }
  }
  return oom;
}

Event read_nccl_alloc(std::string_view message) {
  static constexpr std::array<std::string_view, 8> kCalls{
      "Failed to CUDA calloc async ", "Failed to CUDA calloc ",      "Failed to CUDA host alloc ", "Failed to CUDA malloc ",
      "Failed to hip calloc ",        "Failed to allocate ",         "Failed to malloc ",          "Failed to realloc "};
  OutOfMemory oom;
  oom.backend = contains(message, "HIP") || contains(message, "hip") ? "hip" : "cuda";
  oom.format = "nccl";
  oom.device = nccl_device(message);
  for (const auto call : kCalls) {
    Scan scan(message);
    if (!scan.after(call)) continue;
    oom.truncated = !take(oom.tried, scan.quantity());
    if (call == "Failed to malloc " || call == "Failed to realloc ") oom.backend = "cpu";
    return oom;
  }
  // "Cuda failure 'out of memory'", "Cuda failure 2 'out of memory'"
  Scan scan(message);
  if (scan.after("uda failure ") || scan.after("HIP failure ")) {
    scan.integer();
    scan.blanks();
    if (scan.word("'out of memory'") || scan.word("out of memory")) return oom;
  }
  return {};
}

}  // namespace triage::parsers
