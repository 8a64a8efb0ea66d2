// What would the same requests have taken under other allocator settings? Replays a ReplayTrace on CachingAllocatorModel.
// What the replay cannot know: the program does not change its requests; memory outside PyTorch stays as it was; where two
// cached blocks are equally large, which one the driver had put at the lower address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsers/base/units.hpp"
#include "signatures/memory/alloc_conf.hpp"
#include "signatures/memory/replay_trace.hpp"

namespace triage::signatures {

// Facts of the device that the recording does not have, or that the user knows better.
struct ReplayLimits {
  std::optional<parsers::Bytes> capacity;       // what PyTorch can reserve at most; else ReplayTrace::capacity, else no bound
  std::optional<parsers::Bytes> total_memory;   // of the device; per_process_memory_fraction is a share of it
};

// The request that found no memory.
struct ReplayOutOfMemory {
  std::uint32_t event = 0, stack = 0;           // of the recording
  parsers::Bytes tried, reserved, allocated;    // requested bytes; what stood at that moment
};

struct ReplayResult {
  AllocConf settings;
  bool would_oom = false;
  bool stopped = false;                         // at a request that the program did get: the replay ends there
  std::optional<ReplayOutOfMemory> first_oom;
  std::int64_t ooms = 0, retries = 0;           // retry: the whole cache was given back for one request, which is slow
  parsers::Bytes reserved_peak, allocated_peak, active_peak, inactive_split_peak;
  parsers::Bytes reserved_end, allocated_end;
  parsers::Bytes unallocated_at_peak;           // reserved and not allocated when reserved was largest
  std::int64_t segments_allocated = 0, segments_freed = 0, segments_peak = 0;   // cudaMalloc, cudaFree, at one time
  std::int64_t maps = 0, unmaps = 0;            // of expandable segments
  std::uint64_t requests = 0;                   // replayed
};

// Never fails: requests that contradict the trace are left out (ReplayTrace::skipped counts those known beforehand).
ReplayResult replay(const ReplayTrace& trace, const AllocConf& settings, const ReplayLimits& limits = {});

// The replay under the recorded settings against what was recorded: how far its figures can be trusted.
struct ReplayCheck {
  double reserved_error_percent = 0;            // of the peak of reserved bytes; positive: the replay says more
  std::int64_t segments_recorded = 0, segments_replayed = 0;   // cudaMalloc calls and maps
  bool same_ooms = true;
  ReplayResult result;
};
ReplayCheck check_replay(const ReplayTrace& trace, const ReplayLimits& limits = {});

// The settings of the recorded run, with the memory limit that its failures show.
AllocConf recorded_settings(const ReplayTrace& trace);

}  // namespace triage::signatures
