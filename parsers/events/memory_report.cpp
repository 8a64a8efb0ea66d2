// What runs report about their memory while they are well. Sources of the forms: NVIDIA/Megatron-LM megatron/training/utils (report_memory,
// MiB); NVIDIA-NeMo/Megatron-Bridge training/utils/train_utils.py (report_memory, decimal gigabytes); deepspeedai/DeepSpeed
// runtime/utils.py (see_memory_usage, GiB); pytorch/torchtitan components/metrics.py; verl-project/verl; AI-Hypercomputer/maxtext max_utils.py.
#include "parsers/base/text.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/events/scan.hpp"

#include <array>
#include <cmath>
#include <string>

namespace triage::parsers {

namespace {

constexpr double kMib = 1048576.0, kGib = 1073741824.0, kGigabyte = 1e9;

// The number behind the key, in units of so many bytes. The key does not continue a longer word.
std::optional<Bytes> scaled(std::string_view text, std::string_view key, double unit) {
  Scan scan(text);
  while (scan.after(key)) {
    const auto before = scan.position() - key.size();
    if (before > 0 && (is_word(text[before - 1]) || text[before - 1] == '-')) continue;
    Scan at(scan);
    at.blanks();
    at.word(":") || at.word("=");
    at.blanks();
    for (const std::string_view wrap : {"np.float64(", "np.float32("}) at.word(wrap);
    const auto value = at.number();
    if (!value || !(*value >= 0) || *value * unit >= 9e18) continue;
    return Bytes(static_cast<std::int64_t>(std::llround(*value * unit)));
  }
  return std::nullopt;
}

std::optional<Bytes> size_after(std::string_view text, std::string_view key) {
  Scan scan(text);
  while (scan.after(key)) {
    const auto before = scan.position() - key.size();
    if (before > 0 && is_word(text[before - 1])) continue;
    Scan at(scan);
    at.blanks();
    at.word(":") || at.word("=");
    if (const auto size = at.quantity(); size && !size->meaningless) return size->bytes;
  }
  return std::nullopt;
}

// "[Rank 0] (after 2 iterations) memory (MB)": rank and iteration.
void read_head(std::string_view message, MemoryReport& out) {
  Scan rank(message);
  if (rank.after("[Rank ")) out.rank = rank_number(rank.integer());
  Scan scan(message);
  if (!scan.after("after ")) return;
  const auto iteration = scan.integer();
  if (iteration && scan.word(" iterations")) out.iteration = iteration;
}

// Behind the key " allocated: " there is "max allocated: " too: the fields are split at '|' first.
std::optional<MemoryReport> read_megatron(std::string_view message) {
  const auto at = message.find("memory (MB) |");
  if (at == std::string_view::npos) return std::nullopt;
  MemoryReport out;
  out.printer = "megatron";
  read_head(message, out);
  for (const auto field : split(message.substr(at), '|')) {
    const auto text = trim(field);
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) continue;
    const auto key = text.substr(0, colon);
    const auto value = scaled(text, key, kMib);
    if (key == "allocated") out.allocated = value;
    else if (key == "max allocated") out.max_allocated = value;
    else if (key == "reserved") out.reserved = value;
    else if (key == "max reserved") out.max_reserved = value;
    else if (key == "active") out.active = value;
  }
  return out;
}

// "[Rank 1] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 63.66 | ... | mem-alloc-retires: 0"; older keys end in -bytes.
std::optional<MemoryReport> read_bridge(std::string_view message) {
  if (!contains(message, "mem-allocated-") && !contains(message, "mem-reserved-")) return std::nullopt;
  MemoryReport out;
  out.printer = "bridge";
  read_head(message, out);
  const auto field = [&](std::string_view name) {
    const auto value = scaled(message, std::string(name) + "-gigabytes", kGigabyte);
    return value ? value : scaled(message, std::string(name) + "-bytes", 1);
  };
  out.allocated = field("mem-allocated");
  out.max_allocated = field("mem-max-allocated");
  out.active = field("mem-active");
  out.reserved = field("mem-reserved");
  out.max_reserved = field("mem-max-reserved");
  if (const auto retries = scaled(message, "mem-alloc-retires", 1)) out.retries = retries->count();
  return out;
}

// "MA 3.62 GB         Max_MA 4.93 GB         CA 6.08 GB         Max_CA 6 GB": memory allocated, cached (= reserved).
std::optional<MemoryReport> read_deepspeed(std::string_view message) {
  if (!contains(message, "Max_MA ")) return std::nullopt;
  MemoryReport out;
  out.printer = "deepspeed";
  out.allocated = size_after(message, "MA");
  out.max_allocated = size_after(message, "Max_MA");
  out.reserved = size_after(message, "CA");
  out.max_reserved = size_after(message, "Max_CA");
  return out;
}

// "step:  1  loss: 8.1  memory:  2.50GiB(3.00%)  tps: 1,234": the peak of reserved and its share of the device.
std::optional<MemoryReport> read_torchtitan(std::string_view message) {
  Scan scan(message);
  if (!contains(message, "tps:") || !scan.after("memory:")) return std::nullopt;
  const auto size = scan.quantity();
  if (!size || size->meaningless || !scan.word("(")) return std::nullopt;
  MemoryReport out;
  out.printer = "torchtitan";
  out.max_reserved = size->bytes;
  Scan step(message);
  if (step.after("step:")) out.iteration = step.integer();
  return out;
}

// "perf/max_memory_allocated_gb:12.3 - perf/max_memory_reserved_gb:20.1"
std::optional<MemoryReport> read_verl(std::string_view message) {
  MemoryReport out;
  out.printer = "verl";
  out.max_allocated = scaled(message, "max_memory_allocated_gb", kGib);
  out.max_reserved = scaled(message, "max_memory_reserved_gb", kGib);
  if (!out.max_allocated && !out.max_reserved) return std::nullopt;
  Scan step(message);
  if (step.after("step:")) out.iteration = step.integer();
  return out;
}

// "Using (GB) 10.1 / 15.75 (64.126984%) on TPU_0(process=0,(0,0,0,0))"
std::optional<MemoryReport> read_maxtext(std::string_view message) {
  Scan scan(message);
  if (!scan.after("Using (GB) ")) return std::nullopt;
  MemoryReport out;
  out.printer = "maxtext";
  const auto used = scaled(message, "Using (GB)", kGib);
  Scan of(message);
  if (!used || !of.after(" / ")) return std::nullopt;
  const auto capacity = of.number();
  if (!capacity || !(*capacity > 0) || *capacity > 1e6) return std::nullopt;
  out.allocated = used;
  out.capacity = Bytes(std::llround(*capacity * kGib));
  return out;
}

// "step 1/3 loss 10.7871 allocated 2.31 GiB peak 14.96 GiB reserved 16.30 GiB", "step 5 | epoch 0 | loss 1.2 | mem 12.34 GiB | tps 1234"
std::optional<MemoryReport> read_generic(std::string_view message) {
  if (message.size() > 2048 || contains(message, "out of memory") || contains(message, "OutOfMemory")) return std::nullopt;
  const auto text = lower(message);
  MemoryReport out;
  out.printer = "generic";
  for (const std::string_view key : {"max_memory_allocated", "max memory allocated", "max allocated", "peak allocated", "peak memory", "peak"})
    if (!out.max_allocated) out.max_allocated = size_after(message, key);
  for (const std::string_view key : {"max_memory_reserved", "max memory reserved", "max reserved", "peak reserved"})
    if (!out.max_reserved) out.max_reserved = size_after(message, key);
  Scan any(message);
  if (!out.max_reserved && any.after("| mem ")) {
    if (const auto size = any.quantity(); size && !size->meaningless) out.max_allocated = size->bytes;
  }
  if (!contains(text, "max allocated") && !contains(text, "peak allocated")) out.allocated = size_after(message, "allocated");
  if (!contains(text, "max reserved") && !contains(text, "peak reserved")) out.reserved = size_after(message, "reserved");
  const int known = int(out.allocated.has_value()) + int(out.max_allocated.has_value()) + int(out.reserved.has_value()) + int(out.max_reserved.has_value());
  if (known < 2 && !contains(message, "| mem ") && !contains(text, "max_memory_") && !contains(text, "peak memory")) return std::nullopt;
  if (known == 0) return std::nullopt;
  Scan step(text);
  if (step.after("step") && (step.word(":"), true)) out.iteration = step.integer();
  return out;
}

using Reader = std::optional<MemoryReport> (*)(std::string_view);
constexpr std::array<Reader, 7> kReaders{read_megatron, read_bridge, read_deepspeed, read_torchtitan, read_verl, read_maxtext, read_generic};

}  // namespace

std::optional<MemoryReport> read_memory_report(const Record& record) {
  for (const Reader reader : kReaders) {
    auto out = reader(record.message);
    if (!out) continue;
    if (!out->rank) out->rank = record.rank;
    out->line = record.line.number;
    return out;
  }
  return std::nullopt;
}

std::span<const std::string_view> memory_report_literals() {
  static constexpr std::array<std::string_view, 9> kLiterals{"memory (MB) |", "mem-allocated-", "Max_MA ",        "memory: ", "max_memory_",
                                                             "Using (GB) ",   " | mem ",        " GiB reserved ", "peak memory"};
  return kLiterals;
}

}  // namespace triage::parsers
