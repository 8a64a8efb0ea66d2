// What a snapshot says of each device, in numbers: memory now, at the peak of the trace and at the out-of-memory event, each with its live
// blocks; fragmentation; growth from step to step. What the blocks are (weights, activations, ...) is judged in signatures/verdict.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parsers/snapshot/allocator.hpp"

namespace triage::parsers {

// A block that is in use. Sizes in bytes.
struct LiveBlock {
  std::uint64_t address = 0;
  std::int64_t size = 0;             // rounded, as it counts for "allocated"
  std::int64_t time_us = 0;          // of its allocation; 0: before the trace began, or unknown
  StackId stack = 0;
  bool private_pool = false;         // of a CUDA graph or torch.cuda.MemPool
};

// Memory of a device at one moment. Bytes.
struct MemoryState {
  std::int64_t allocated = 0;        // by tensors: sum of `blocks`
  std::int64_t active = 0;           // and waiting for a stream
  std::int64_t reserved = 0;         // taken from the driver
  std::int64_t time_us = 0;          // 0: unknown
  std::size_t event = 0;             // events before this moment
  std::vector<LiveBlock> blocks;     // allocated, largest first
};

struct SegmentTotals {
  std::size_t count = 0, small = 0, large = 0, expandable = 0, private_pool = 0, empty = 0;   // empty: no block in use, could be given back
  std::int64_t private_bytes = 0, empty_bytes = 0, largest = 0;
};

// Who keeps segments that are mostly free from being given back or reused.
struct PinnedBy {
  StackId stack = 0;                 // of the largest live block
  std::size_t segments = 0;
  std::int64_t free_bytes = 0, live_bytes = 0;   // of these segments
};

struct Fragmentation {
  std::int64_t unallocated = 0;      // reserved and free: what PyTorch's message calls "reserved but unallocated"
  std::int64_t inactive_split = 0;   // the part of it beside live blocks of its segment: cannot be given back
  std::int64_t largest_free = 0;     // the largest free block
  std::size_t free_blocks = 0;
  std::vector<PinnedBy> pinned;      // segments with at least half of them free, most free bytes first
  // The request that failed would have fitted into the free bytes, yet no single free block held it.
  bool blocked_request = false;
};

struct OomEvent {
  std::int64_t requested = 0, device_free = 0;   // bytes
  std::size_t count = 0;             // such events in the trace; this is the last
  StackId stack = 0;
  std::uint64_t stream = 0;
  MemoryState state;                 // then
};

struct GrowingStack {
  StackId stack = 0;
  std::int64_t bytes_per_step = 0, bytes = 0;    // bytes: live at the last step
};

struct Leak {
  std::size_t steps = 0;             // steps compared, warm-up left out
  std::int64_t bytes_per_step = 0;   // of all growing stacks
  std::vector<GrowingStack> stacks;  // fastest first
  StackId anchor = 0;                // steps are the turns in which this stack allocates; 0: steps that the trace marks
  // Until what is free is used up: on the device where its size was given, else in the cache alone. Empty after a failure.
  std::optional<double> steps_left;
};

// Memory over time for drawing: the extremes of equal stretches of events.
inline constexpr std::size_t kTimelineGroups = 16;
struct TimelinePoint {
  std::int64_t time_us = 0, allocated_low = 0, allocated_high = 0, reserved = 0;
  std::array<std::int64_t, kTimelineGroups> groups{};   // allocated_high by SummaryOptions::group_of
};
// Live bytes of each call stack at the end of one of these stretches, most first.
struct TimelineState {
  std::size_t point = 0;             // number in the timeline
  std::vector<std::pair<StackId, std::int64_t>> stacks;
};

struct DeviceSummary {
  int device = 0;
  MemoryState now;                   // at the dump, from the segments
  std::int64_t requested = 0;        // bytes as tensors asked for them; allocated - requested was lost to rounding
  SegmentTotals segments;
  Fragmentation fragmentation;
  std::size_t events = 0;
  std::int64_t first_us = 0, last_us = 0;        // times of the trace
  bool trace_cut = false;            // blocks lived before the first event: the ring lost the start, or recording began late
  std::optional<MemoryState> peak;   // of allocated bytes, in the trace
  std::int64_t reserved_peak = 0;
  std::optional<OomEvent> oom;
  std::optional<Leak> leak;          // set where steps can be told and memory grows; empty otherwise
  std::vector<std::int64_t> step_ends;           // times of the ends of steps that the trace marks, else of turns of its loop; ascending
  bool steps_marked = false;
  std::vector<TimelinePoint> timeline;
  std::vector<TimelineState> timeline_states;    // ascending
  std::size_t timeline_stretch = 1;              // events of a point
  std::vector<std::string> faults;   // sums of the file that cannot be, in words
};

// The last end of a step before this moment; 0: none.
std::int64_t last_step_before(const DeviceSummary& summary, const MemoryState& state);

struct SummaryOptions {
  std::size_t timeline_points = 0;   // 0: none
  std::size_t timeline_states = 0;   // of them, evenly spread; 0: none
  // The group of a block by its stack and size, under kTimelineGroups; the same for equal arguments. Empty: all in group 0.
  std::function<std::uint8_t(StackId stack, std::int64_t size)> group_of;
  std::int64_t device_bytes = 0;     // what PyTorch can reserve on the device; 0: not known
};

std::vector<DeviceSummary> summarize(const AllocatorSnapshot& snapshot, const SummaryOptions& options = {});

// What the allocator gives for a request without special settings: a multiple of 512 bytes, at least 512.
// Source: c10/cuda/CUDACachingAllocator.cpp, round_size and kMinBlockSize.
constexpr std::int64_t rounded_size(std::int64_t requested) {
  constexpr std::int64_t kBlock = 512;
  if (requested <= kBlock) return kBlock;
  return requested > INT64_MAX - kBlock ? requested : (requested + kBlock - 1) / kBlock * kBlock;
}

}  // namespace triage::parsers
