// AllocConf: what PYTORCH_CUDA_ALLOC_CONF (new name PYTORCH_ALLOC_CONF) sets, as far as it changes which memory
// PyTorch's native CUDA allocator takes from the driver. Read by the replay; it holds no state of a run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"

namespace triage::signatures {

// Sizes that the allocator is built on (pytorch/pytorch: c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp).
namespace allocator {
inline constexpr std::int64_t kMiB = 1 << 20;
inline constexpr std::int64_t kBlockUnit = 512;             // every block is a multiple of it
inline constexpr std::int64_t kSmallLimit = kMiB;           // the largest block of the small pool
inline constexpr std::int64_t kSmallSegment = 2 * kMiB;     // one segment (or page) of the small pool
inline constexpr std::int64_t kLargeSegment = 20 * kMiB;    // one segment (or page) of the large pool, for blocks under kOwnSegment
inline constexpr std::int64_t kOwnSegment = 10 * kMiB;      // from here on a block gets a segment of its own size
inline constexpr std::int64_t kSegmentUnit = 2 * kMiB;      // to which that size is rounded up
inline constexpr std::size_t kRoundupIntervals = 16;        // [1 MiB, 2 MiB), [2, 4) ... [32 GiB, any)
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 42;   // of one request or segment that is believed: no device has 4 TiB

inline bool plausible(std::int64_t bytes) { return bytes >= 0 && bytes <= kMostBytes; }
}  // namespace allocator

struct AllocConf {
  bool expandable_segments = false;
  std::optional<parsers::Bytes> max_split_size;                       // empty: blocks of any size are split
  parsers::Bytes max_non_split_rounding{allocator::kLargeSegment};    // with max_split_size: slack of an oversize block
  double garbage_collection_threshold = 0;                            // share of the memory limit; 0: off
  std::array<std::uint32_t, allocator::kRoundupIntervals> roundup_power2_divisions{};   // 0 and 1: off
  parsers::Bytes large_segment_size{allocator::kLargeSegment};
  std::optional<double> per_process_memory_fraction;                  // of the device's total memory
  std::optional<parsers::Bytes> memory_limit;                         // the same in bytes; not a key of PyTorch
  std::vector<std::string> without_effect;                            // keys that were read and do not change the replay

  friend bool operator==(const AllocConf& a, const AllocConf& b);
};

// Text of PYTORCH_CUDA_ALLOC_CONF as PyTorch 2.0 to 2.11 reads it, and beside it `memory_limit:BYTES` (units allowed). '=' may
// stand for ':', True in any case; "" and "default" are the default. Errors: syntax (unknown key with the nearest known one,
// wrong value), unsupported (another backend).
parsers::Result<AllocConf> read_alloc_conf(std::string_view text);

// The settings as such a text, only what differs from the default; "default" if nothing does.
std::string settings_text(const AllocConf& settings);

// Bytes of the block that serves a request of `bytes`.
std::int64_t block_size(std::int64_t bytes, const AllocConf& settings);
// Bytes of the segment that would be taken from the driver for a block of `block` bytes.
std::int64_t segment_size(std::int64_t block, const AllocConf& settings);

}  // namespace triage::signatures
