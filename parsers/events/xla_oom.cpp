// Out-of-memory texts of XLA (JAX, MaxText) and TensorFlow.
// Sources: openxla/xla xla/service/hlo_rematerialization and buffer assignment texts, xla/stream_executor, xla/tsl/framework/bfc_allocator.cc;
// tensorflow/tensorflow core/framework/op_kernel.cc. Their sizes are binary: "41.74G" is 41.74 GiB.
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

// The printed size, and the exact one behind it in "4.44GiB (rounded to 4770354432)" or "1.0GiB (1073741824B)".
bool take_exact(std::optional<Bytes>& to, Scan& scan) {
  if (!take(to, scan.quantity())) return false;
  Scan next(scan);
  next.blanks();
  if (next.word("(")) {
    next.word("rounded to ");
    std::optional<Bytes> exact;
    if (take(exact, next.quantity(true))) to = exact;
  }
  return true;
}

// Bytes of an element of a TensorFlow or XLA type; 0: not known.
std::int64_t element_bytes(std::string_view type) {
  struct Size { std::string_view type; std::int64_t bytes; };
  static constexpr std::array<Size, 16> kSizes{{{"float", 4}, {"float32", 4}, {"half", 2}, {"float16", 2}, {"bfloat16", 2}, {"double", 8},
                                                {"float64", 8}, {"int32", 4}, {"int64", 8}, {"uint32", 4}, {"uint64", 8}, {"int16", 2},
                                                {"uint8", 1}, {"int8", 1}, {"bool", 1}, {"complex64", 8}}};
  for (const auto& size : kSizes)
    if (size.type == type) return size.bytes;
  return 0;
}

// "GPU_0_bfc", "cuda_host_bfc", "/device:GPU:1", "TPU_0(host,core0)".
void place_of_allocator(std::string_view message, OutOfMemory& oom) {
  if (contains(message, "cuda_host") || contains(message, "gpu_host") || contains(message, "by allocator cpu")) {
    oom.backend = "cpu";
    return;
  }
  for (const std::string_view mark : {"Allocator (GPU_", "by allocator GPU_", "device:GPU:", "on device ordinal ", "TPU_"}) {
    Scan scan(message);
    if (!scan.after(mark)) continue;
    oom.device = rank_number(scan.integer());
    if (mark == "TPU_") oom.backend = "tpu";
    else if (oom.backend.empty()) oom.backend = "cuda";
    return;
  }
}

// "Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.72GiB (rounded to 4000000000)requested by op X"
bool read_bfc(std::string_view message, OutOfMemory& oom) {
  Scan scan(message);
  if (!scan.after("ran out of memory trying to allocate ")) return false;
  oom.format = "bfc";
  oom.truncated = !take_exact(oom.tried, scan);
  return true;
}

// "Ran out of memory in memory space hbm. Used 41.74G of 16.00G hbm. Exceeded hbm capacity by 25.74G."
bool read_compile(std::string_view message, OutOfMemory& oom) {
  Scan scan(message);
  if (!scan.after("Ran out of memory in memory space ")) return false;
  const auto space = scan.until(". ");
  oom.format = "xla-compile";
  oom.backend = space == "hbm" || space == "vmem" || space == "smem" ? "tpu" : "";
  oom.truncated = true;
  if (scan.after("Used ") && take(oom.tried, scan.quantity()) && scan.word(" of ")) oom.truncated = !take(oom.capacity, scan.quantity());
  return true;
}

struct Form {
  std::string_view text, format;
};
// The size of the request stands behind the text.
constexpr std::array<Form, 8> kRequests{{
    {"Out of memory while trying to allocate ", "xla-runtime"},
    {"Out of memory trying to allocate ", "xla-runtime"},
    {"Error allocating device buffer: Attempting to allocate ", "xla-runtime"},
    {"Attempting to reserve ", "xla-program"},
    {"Attempting to allocate ", "xla-runtime"},
    {"Failed to allocate request for ", "xla-runtime"},
    {"failed to allocate ", "xla-runtime"},
    {"Failed to allocate ", "xla-runtime"},
}};

}  // namespace

Event read_jax_oom(std::string_view message) {
  OutOfMemory oom;
  if (read_compile(message, oom)) return oom;
  for (const Form& form : kRequests) {
    Scan scan(message);
    if (!scan.after(form.text)) continue;
    oom.format = form.format;
    oom.truncated = !take_exact(oom.tried, scan);
    place_of_allocator(message, oom);
    if (scan.after("There are ")) {  // "There are 7.66G free, 0B reserved, and 7.66G reservable."
      oom.backend = "tpu";
      take(oom.free, scan.quantity());
    } else if (scan.after(" from device: CUDA")) {
      oom.backend = "cuda";
    }
    // "Failed to allocate ..." without a size belongs to other programs.
    if (oom.truncated && !contains(message, "RESOURCE_EXHAUSTED") && form.format == "xla-runtime" && !form.text.starts_with("Out of")) return {};
    return oom;
  }
  if (read_bfc(message, oom)) {
    place_of_allocator(message, oom);
    return oom;
  }
  if (contains(message, "RESOURCE_EXHAUSTED") &&
      (contains(message, "emory") || contains(message, "OUT_OF_MEMORY"))) {
    oom.format = "xla-runtime";
    place_of_allocator(message, oom);
    if (contains(message, "CUDA")) oom.backend = "cuda";
    return oom;
  }
  return {};
}

Event read_tf_oom(std::string_view message) {
  OutOfMemory oom;
  if (read_bfc(message, oom)) {
    place_of_allocator(message, oom);
    return oom;
  }
  // "OOM when allocating tensor with shape[1000,1000,250,4] and type float on /job:.../device:GPU:0 by allocator GPU_0_bfc"
  Scan scan(message);
  if (!scan.after("OOM when allocating tensor")) {
    // eager: "ResourceExhaustedError: {{function_node ... device:GPU:0}} failed to allocate memory [Op:Mul]"
    if (!contains(message, "ResourceExhausted") || !contains(message, "failed to allocate memory")) return {};
    oom.format = "tf";
    place_of_allocator(message, oom);
    return oom;
  }
  oom.format = "tf";
  place_of_allocator(message, oom);
  if (!scan.word(" with shape[") && !scan.word(" of shape [")) {
    oom.truncated = true;
    return oom;
  }
  std::int64_t count = 1;
  bool known = true;
  while (!scan.done() && scan.peek() != ']') {
    const auto size = scan.integer();
    if (!size || *size < 0 || __builtin_mul_overflow(count, *size, &count)) known = false;
    scan.until(",]");
    scan.word(",");
  }
  known = known && scan.word("]");
  if (scan.word(" and type ")) {
    const auto bytes = element_bytes(scan.until(" ,;\n"));
    if (known && bytes > 0 && !__builtin_mul_overflow(count, bytes, &count)) oom.tried = Bytes(count);
  }
  return oom;
}

}  // namespace triage::parsers
