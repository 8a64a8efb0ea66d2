// ReplayTrace: what a program asked of the caching allocator, in order, and what the allocator then did, as far as a replay
// under other settings needs it. Made by allocator_recording.hpp; the replay (allocator_replay.hpp) only reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parsers/base/units.hpp"
#include "signatures/memory/alloc_conf.hpp"

namespace triage::signatures {

struct AllocatorRequest {
  enum class Kind : std::uint8_t {
    alloc,           // a block that the program got
    failed_alloc,    // a block that it did not get (a recorded out-of-memory)
    free,            // given back, usable at once
    free_requested,  // given back, but other streams still use it ...
    free_completed,  // ... and now they do not
    empty_cache,     // torch.cuda.empty_cache(); with a pool: of that private pool alone (its MemPool died)
    pool_done        // the last graph or MemPool that held the private pool is gone: releases of the cache take it from now on
  };
  std::int64_t bytes = 0;      // as the program asked, not rounded
  std::uint32_t block = 0;     // names the block from its alloc to its free; 0 .. ReplayTrace::blocks - 1
  std::uint32_t stack = 0;     // as the recording names it
  std::uint32_t event = 0;     // position in the recording
  std::uint16_t stream = 0;    // index, 0 .. streams - 1
  std::uint16_t pool = 0;      // 0: the default pool; else a private pool (CUDA graphs, MemPool)
  Kind kind = Kind::alloc;
  bool restored = false;       // put back by a checkpoint of its pool (CUDA graph trees), where it had been: nothing was searched
};

// Where the driver put a segment that was made for the request at that index; of a restored request: where its block lies.
struct RecordedSegmentAddress {
  std::uint32_t request = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
};

// What stood on the device when the recording began.
struct StartBlock {
  std::int64_t bytes = 0;            // of the block
  std::int64_t requested = 0;
  std::uint32_t block = 0;           // its name where it is in use
  bool in_use = false;
};
struct StartSegment {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::uint16_t stream = 0, pool = 0;
  bool large = false, expandable = false;
  std::vector<StartBlock> blocks;    // without gaps, in order of address
};

// What a private pool does that the settings do not say.
struct PoolTraits {
  bool own_allocator = false;   // MemPool(allocator=...): never expandable segments
  bool no_split = false;        // MemPool(no_split=True): a block is never split
};

// What the allocator really did. Bytes.
struct RecordedOutcome {
  std::int64_t reserved_peak = 0, allocated_peak = 0, start_reserved = 0, end_reserved = 0;
  std::int64_t segments_allocated = 0, segments_freed = 0, segments_mapped = 0, segments_unmapped = 0;
  std::int64_t ooms = 0, retries = 0;
};

struct ReplayTrace {
  AllocConf settings;                          // under which it was recorded
  std::vector<AllocatorRequest> requests;
  std::vector<RecordedSegmentAddress> addresses;       // ascending in request
  std::vector<StartSegment> start;
  std::vector<PoolTraits> pool_traits;                 // by number of the pool; shorter: the rest is usual
  std::uint32_t blocks = 0;
  std::uint16_t streams = 1, pools = 1;
  // What PyTorch could have reserved at most: reserved at the last out-of-memory + free then. Empty: none was recorded.
  std::optional<parsers::Bytes> capacity;
  // A memory fraction was at work: requests failed with enough memory free. The largest amount that was reserved; the limit
  // is no smaller.
  std::optional<parsers::Bytes> limit_at_least;
  RecordedOutcome recorded;
  std::uint64_t skipped = 0;                           // events that contradict each other or are out of any range
  bool complete = true;                                // false: the recording began after the first allocation
};

}  // namespace triage::signatures
