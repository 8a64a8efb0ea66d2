#include "signatures/memory/alloc_conf.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "parsers/base/nearest.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"

namespace triage::signatures {
namespace {

using parsers::Bytes;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::Status;

constexpr std::size_t kTextBytes = 4096;   // an environment variable of more is no setting of the allocator
constexpr std::int64_t kMostMiB = std::int64_t{1} << 40;

// Keys that are read and change nothing here: host memory, locking, reuse during a capture (the trace shows its result).
constexpr std::string_view kWithoutEffect[] = {
    "release_lock_on_cudamalloc",     "release_lock_on_hipmalloc",   "release_lock_on_malloc",
    "pinned_use_cuda_host_register",  "pinned_use_hip_host_register", "pinned_use_host_register",
    "pinned_num_register_threads",    "pinned_use_background_threads", "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom"};
constexpr std::string_view kKeys[] = {
    "expandable_segments", "max_split_size_mb", "max_non_split_rounding_mb", "garbage_collection_threshold",
    "roundup_power2_divisions", "roundup_bypass_threshold_mb", "large_segment_size_mb", "per_process_memory_fraction",
    "backend", "memory_limit"};

Error fault(std::string message) { return Error(ErrorCode::syntax, std::move(message)); }

Error unknown_key(std::string_view key) {
  std::string_view nearest;
  std::size_t best = 6;
  const auto look = [&](std::string_view known) {
    const std::size_t far = parsers::edit_distance(key.substr(0, 64), known);
    if (far < best) best = far, nearest = known;
  };
  for (const auto known : kKeys) look(known);
  for (const auto known : kWithoutEffect) look(known);
  Error error = fault("unknown allocator setting '" + std::string(key.substr(0, 64)) + "'");
  if (nearest.empty()) return error;
  return std::move(error).help("did you mean " + std::string(nearest) + "?");
}

// KEY:VALUE pairs; a value may be a list in brackets. Views look into the text.
struct Pair {
  std::string_view key, value;
};

Result<std::vector<Pair>> split_pairs(std::string_view text) {
  std::vector<Pair> pairs;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at;
    int depth = 0;
    while (end < text.size() && (depth > 0 || text[end] != ',')) {
      if (text[end] == '[') ++depth;
      if (text[end] == ']') --depth;
      if (depth < 0 || depth > 1) return fault("brackets that do not match in the allocator settings");
      ++end;
    }
    if (depth != 0) return fault("a bracket is not closed in the allocator settings");
    const std::string_view item = parsers::trim(text.substr(at, end - at));
    at = end + 1;
    if (item.empty()) continue;
    const std::size_t colon = item.find_first_of(":=");
    if (colon == std::string_view::npos) {
      if (item == "default" && text.find(',') == std::string_view::npos) return pairs;
      return fault("allocator setting '" + std::string(item.substr(0, 64)) + "' has no value (KEY:VALUE is expected)");
    }
    pairs.push_back({parsers::trim(item.substr(0, colon)), parsers::trim(item.substr(colon + 1))});
  }
  return pairs;
}

Result<bool> read_bool(const Pair& pair) {
  if (parsers::equal_ignoring_case(pair.value, "true")) return true;
  if (parsers::equal_ignoring_case(pair.value, "false")) return false;
  return fault(std::string(pair.key) + " must be True or False");
}

Result<Bytes> read_mib(const Pair& pair, std::int64_t least_mib) {
  const auto number = parsers::read_integer(pair.value);
  if (!number || *number < least_mib)
    return fault(std::string(pair.key) + " must be a whole number of MiB, at least " + std::to_string(least_mib));
  return Bytes(std::min(*number, kMostMiB) * allocator::kMiB);
}

Result<double> read_share(const Pair& pair, bool ends_allowed) {
  const auto number = parsers::read_double(pair.value);
  const bool inside = number && (ends_allowed ? *number >= 0 && *number <= 1 : *number > 0 && *number < 1);
  if (!inside) return fault(std::string(pair.key) + " must be a number between 0 and 1");
  return *number;
}

Result<std::uint32_t> read_divisions(std::string_view text, bool zero_allowed) {
  const auto number = parsers::read_integer(parsers::trim(text));
  const bool good = number && *number >= 0 && *number <= (1 << 30) &&
                    (*number == 0 ? zero_allowed : std::has_single_bit(static_cast<std::uint64_t>(*number)));
  if (!good) return fault("roundup_power2_divisions must be a power of two");
  return static_cast<std::uint32_t>(*number);
}

// "4", or "[256:1,512:2,1024:4,>:8]": the boundaries are MiB, '>' is the rest. What lies under the first boundary gets its value.
Status read_roundup(std::string_view value, AllocConf& out) {
  auto& divisions = out.roundup_power2_divisions;
  if (!value.starts_with('[')) {
    TRIAGE_TRY(const std::uint32_t all, read_divisions(value, false));
    divisions.fill(all);
    return parsers::done();
  }
  value.remove_prefix(1);
  if (!value.ends_with(']')) return fault("roundup_power2_divisions: a bracket is not closed");
  value.remove_suffix(1);
  std::size_t last = 0;
  bool first = true;
  for (const std::string_view part : parsers::split(value, ',')) {
    const std::size_t colon = part.find_first_of(":=");
    if (colon == std::string_view::npos) return fault("roundup_power2_divisions: MIB:DIVISIONS is expected");
    TRIAGE_TRY(const std::uint32_t count, read_divisions(part.substr(colon + 1), true));
    const std::string_view bound = parsers::trim(part.substr(0, colon));
    if (bound == ">") {
      for (std::size_t i = std::min(last + 1, divisions.size()); i < divisions.size(); ++i) divisions[i] = count;
      continue;
    }
    const auto mib = parsers::read_integer(bound);
    if (!mib || *mib <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(*mib)))
      return fault("roundup_power2_divisions: a boundary must be a power of two (MiB)");
    const std::size_t index =
        std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(*mib))), divisions.size() - 1);
    if (first) std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(index), count);
    first = false;
    divisions[index] = count;
    last = index;
  }
  return parsers::done();
}

Status read_pair(const Pair& pair, AllocConf& out) {
  const std::string_view key = pair.key;
  if (pair.value.empty()) return fault("allocator setting '" + std::string(key.substr(0, 64)) + "' has no value");
  if (key == "expandable_segments") {
    TRIAGE_TRY(out.expandable_segments, read_bool(pair));
  } else if (key == "max_split_size_mb") {
    if (pair.value == "-1") return out.max_split_size.reset(), parsers::done();   // as a snapshot writes "no bound"
    TRIAGE_TRY(out.max_split_size, read_mib(pair, allocator::kLargeSegment / allocator::kMiB));
  } else if (key == "max_non_split_rounding_mb") {
    TRIAGE_TRY(out.max_non_split_rounding, read_mib(pair, allocator::kLargeSegment / allocator::kMiB));
  } else if (key == "large_segment_size_mb") {
    TRIAGE_TRY(out.large_segment_size, read_mib(pair, 2));
    if (out.large_segment_size.count() % allocator::kSegmentUnit != 0)
      return fault("large_segment_size_mb must be a multiple of 2");
  } else if (key == "garbage_collection_threshold") {
    TRIAGE_TRY(out.garbage_collection_threshold, read_share(pair, false));
  } else if (key == "per_process_memory_fraction") {
    TRIAGE_TRY(out.per_process_memory_fraction, read_share(pair, true));
  } else if (key == "roundup_power2_divisions") {
    return read_roundup(pair.value, out);
  } else if (key == "memory_limit") {
    const auto bytes = parsers::read_bytes(pair.value);
    if (!bytes) return fault("memory_limit must be an amount of memory (40GiB, or bytes)");
    out.memory_limit = *bytes;
  } else if (key == "backend") {
    if (pair.value != "native")
      return Error(ErrorCode::unsupported, "only the native allocator can be replayed, not backend '" +
                                               std::string(pair.value.substr(0, 64)) + "'");
  } else if (key == "roundup_bypass_threshold_mb" ||
             std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), key) != std::end(kWithoutEffect)) {
    out.without_effect.emplace_back(key);
  } else {
    return unknown_key(key);
  }
  return parsers::done();
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string roundup_text(const AllocConf& settings) {
  const auto& d = settings.roundup_power2_divisions;
  if (std::all_of(d.begin(), d.end(), [&](std::uint32_t n) { return n == d[0]; })) return std::to_string(d[0]);
  // Equal values at both ends are written once: under the first boundary, and as the rest.
  std::size_t first = 0, rest = d.size() - 1;
  while (d[first + 1] == d[0]) ++first;
  while (d[rest - 1] == d.back()) --rest;
  std::string out = "[";
  for (std::size_t i = first; i < rest; ++i) out += std::to_string(std::uint64_t{1} << i) + ":" + std::to_string(d[i]) + ",";
  out += ">:" + std::to_string(d.back());
  return out + "]";
}

}  // namespace

bool operator==(const AllocConf& a, const AllocConf& b) {
  return a.expandable_segments == b.expandable_segments && a.max_split_size == b.max_split_size &&
         a.max_non_split_rounding == b.max_non_split_rounding &&
         a.garbage_collection_threshold == b.garbage_collection_threshold &&
         a.roundup_power2_divisions == b.roundup_power2_divisions && a.large_segment_size == b.large_segment_size &&
         a.per_process_memory_fraction == b.per_process_memory_fraction && a.memory_limit == b.memory_limit;
}

Result<AllocConf> read_alloc_conf(std::string_view text) {
  if (text.size() > kTextBytes) return Error(ErrorCode::limit, "the allocator settings are longer than 4096 bytes");
  AllocConf out;
  TRIAGE_TRY(const std::vector<Pair> pairs, split_pairs(text));
  for (const Pair& pair : pairs) TRIAGE_CHECK(read_pair(pair, out));
  if (out.max_split_size && *out.max_split_size < out.large_segment_size)
    return fault("max_split_size_mb must not be smaller than large_segment_size_mb");
  return out;
}

std::string settings_text(const AllocConf& settings) {
  const AllocConf plain;
  std::string out;
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!out.empty()) out += ',';
    out.append(key).append(":").append(value);
  };
  const auto mib = [](Bytes bytes) { return std::to_string(bytes.count() / allocator::kMiB); };
  if (settings.expandable_segments) add("expandable_segments", "True");
  if (settings.max_split_size) add("max_split_size_mb", mib(*settings.max_split_size));
  if (settings.max_non_split_rounding != plain.max_non_split_rounding)
    add("max_non_split_rounding_mb", mib(settings.max_non_split_rounding));
  if (settings.garbage_collection_threshold > 0)
    add("garbage_collection_threshold", number_text(settings.garbage_collection_threshold));
  if (settings.roundup_power2_divisions != plain.roundup_power2_divisions)
    add("roundup_power2_divisions", roundup_text(settings));
  if (settings.large_segment_size != plain.large_segment_size) add("large_segment_size_mb", mib(settings.large_segment_size));
  if (settings.per_process_memory_fraction)
    add("per_process_memory_fraction", number_text(*settings.per_process_memory_fraction));
  if (settings.memory_limit) add("memory_limit", std::to_string(settings.memory_limit->count()));
  return out.empty() ? "default" : out;
}

std::int64_t block_size(std::int64_t bytes, const AllocConf& settings) {
  if (bytes < allocator::kBlockUnit) return allocator::kBlockUnit;
  const auto size = static_cast<std::uint64_t>(bytes);
  const int log2 = static_cast<int>(std::bit_width(size)) - 1;
  const auto index = std::min<std::size_t>(log2 > 20 ? static_cast<std::size_t>(log2 - 20) : 0, allocator::kRoundupIntervals - 1);
  const std::uint64_t divisions = settings.roundup_power2_divisions[index];
  if (divisions > 1 && size > static_cast<std::uint64_t>(allocator::kBlockUnit) * divisions) {
    if (std::has_single_bit(size)) return bytes;
    // The span between two powers of two is cut into `divisions` steps; the size goes up to the next step.
    const std::uint64_t step = (std::uint64_t{1} << log2) >> (static_cast<int>(std::bit_width(divisions)) - 1);
    if (step == 0) return static_cast<std::int64_t>(std::uint64_t{2} << log2);
    return static_cast<std::int64_t>((size + step - 1) / step * step);
  }
  return (bytes + allocator::kBlockUnit - 1) / allocator::kBlockUnit * allocator::kBlockUnit;
}

std::int64_t segment_size(std::int64_t block, const AllocConf& settings) {
  if (block <= allocator::kSmallLimit) return allocator::kSmallSegment;
  if (block < allocator::kOwnSegment) return settings.large_segment_size.count();
  return (block + allocator::kSegmentUnit - 1) / allocator::kSegmentUnit * allocator::kSegmentUnit;
}

}  // namespace triage::signatures
