// Allocator snapshot of PyTorch -> ReplayTrace: the program's requests without what the allocator made of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parsers/snapshot/allocator.hpp"
#include "parsers/snapshot/trace.hpp"
#include "signatures/memory/replay_trace.hpp"

namespace triage::signatures {

// The trace of one device. Empty: the snapshot has no events of it. Where the recorder's buffer was full, or the recorder began
// late, the state at the first event is rebuilt from the last state and the events (ReplayTrace::complete is false then).
std::optional<ReplayTrace> replay_trace(const parsers::AllocatorSnapshot& snapshot, int device);

// The settings that a snapshot states.
AllocConf snapshot_settings(const parsers::AllocatorSettings& stated);

// The steps of replay_trace(): segments of the end first, then all events in order, then finish().
class ReplayTraceBuilder {
 public:
  // Where its stack shows that torch.cuda.empty_cache() was called.
  using IsEmptyCache = std::function<bool(std::uint32_t stack)>;
  ReplayTraceBuilder(AllocConf settings, bool frees_complete, IsEmptyCache is_empty_cache);

  void segment(const parsers::SnapshotSegment& segment, std::span<const parsers::SnapshotBlock> blocks);
  // Of the segment_alloc events, in order (replay_pools.hpp). Else that of the segment which the dump has at the same address.
  void pools_of_segments(std::vector<parsers::PoolId> pools) { made_pools_ = std::move(pools); }
  void event(const parsers::TraceEvent& event);
  ReplayTrace finish();

 private:
  using Kind = AllocatorRequest::Kind;
  struct Live {
    std::uint32_t block = 0;
    std::int64_t bytes = 0;
    bool pending = false;
    std::uint32_t request = 0;   // of its free_requested
  };
  struct Segment {               // cudaMalloc'ed, or a mapped stretch
    std::int64_t bytes = 0;
    std::uint64_t stream = 0;
    std::uint16_t pool = 0;
    bool large = true, expandable = false, from_start = false;
  };
  struct Before {                // a block that was in use before the first event
    std::uint64_t address = 0;
    std::int64_t requested = 0, bytes = 0;   // bytes: 0 not known
    std::uint32_t block = 0;
  };
  // Segments given back in a row: by empty_cache(), or to make room for a request.
  struct Release {
    std::vector<std::size_t> requests;       // where they stand: of the default pool, of private ones
    bool all = false;                        // the default pool is among them: then all that may go goes
    std::vector<std::uint16_t> pools;        // private ones
    std::int64_t reserved = 0, wanted = 0;   // reserved before, relative to the start; segment that was made next, 0 none
    std::uint32_t stack = 0, next_stack = 0; // of the first of them, and of what came next; 0: not recorded
    bool by_hand = false;        // empty_cache() stands on the stack
  };

  std::uint16_t stream_of(std::uint64_t stream);
  std::uint16_t pool_of(const parsers::PoolId& pool);
  std::uint16_t pool_at(std::uint64_t address, const parsers::PoolId& stated);
  void add(Kind kind, const parsers::TraceEvent& event, std::uint32_t block);
  void alloc(const parsers::TraceEvent& event);
  void free_requested(const parsers::TraceEvent& event);
  void free_completed(const parsers::TraceEvent& event);
  void segment_made(const parsers::TraceEvent& event, bool mapped);
  void segment_gone(const parsers::TraceEvent& event, bool mapped);
  void out_of_memory(const parsers::TraceEvent& event);
  void end_release(const parsers::TraceEvent& next);
  Live& live_before(const parsers::TraceEvent& event);
  void reserve(std::int64_t change);
  void release_of(std::uint16_t pool, const parsers::TraceEvent& event);
  void note_restored(std::uint64_t address, std::int64_t bytes);
  PoolTraits& traits_of(std::uint16_t pool);
  bool made_room(const Release& release) const;
  void decide_releases();
  void rebuild_start();
  void lay_out(StartSegment& segment, std::vector<Before>& blocks, std::size_t first, std::size_t last) const;

  ReplayTrace out_;
  bool frees_complete_;
  IsEmptyCache is_empty_cache_;
  std::uint32_t event_ = 0;
  std::unordered_map<std::uint64_t, Live> live_;
  std::map<std::uint64_t, Segment> last_;        // as the snapshot states them
  std::map<std::uint64_t, Segment> segments_;    // at the present event
  std::vector<Before> last_blocks_;              // in use at the end
  std::vector<Before> before_;
  std::vector<std::pair<std::uint64_t, Segment>> gone_;   // from before the first event, given back since
  std::vector<std::pair<std::uint64_t, std::int64_t>> maps_;   // mapped (> 0) and unmapped (< 0) ranges, in order
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::map<parsers::PoolId, std::uint16_t> pools_;
  std::vector<parsers::PoolId> made_pools_;
  std::size_t next_made_ = 0;
  std::vector<bool> pools_done_;
  // Blocks in a row that fill a segment from its start: no request is served so, only a checkpoint of a pool is put back like that.
  struct Row {
    std::uint64_t begin = 0, end = 0;            // of the segment
    std::uint64_t next = 0;                      // where the next block of the row lies
    std::size_t first = 0;                       // request
  };
  std::optional<Row> row_;
  std::optional<RecordedSegmentAddress> made_;   // the segment of the alloc that follows
  std::optional<Release> release_;
  std::vector<Release> releases_;
  std::int64_t reserved_ = 0, reserved_peak_ = 0, allocated_ = 0, allocated_peak_ = 0;   // relative to the start
  std::optional<std::int64_t> oom_reserved_, oom_free_, retry_short_of_;   // too much for the device, in a retry
  bool limited_ = false;
};

}  // namespace triage::signatures
