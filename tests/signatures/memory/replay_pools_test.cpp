#include "signatures/memory/replay_pools.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "signatures/memory/allocator_replay.hpp"
#include "signatures/memory/replay_recording.hpp"
#include "tests/support/trace_script.hpp"

using namespace triage::signatures;
using triage::parsers::AllocatorSnapshot;
using triage::parsers::BlockState;
using triage::parsers::PoolId;
using triage::parsers::SnapshotBlock;
using triage::parsers::SnapshotSegment;
using triage::parsers::TraceAction;
using triage::tests::at;
using triage::tests::kMiB;
using triage::tests::trace_event;

namespace {

constexpr PoolId kGraph{1, 0}, kMemPool{0, 5};

// A recording written down event by event, in MiB.
struct Script {
  AllocatorSnapshot snapshot;
  PoolId pool;                 // of the events that follow, where the recording names pools

  Script() { snapshot.traces.emplace_back(), snapshot.segments_whole = snapshot.traces_whole = snapshot.has_traces = true; }
  void event(TraceAction action, std::int64_t mib, std::int64_t size, std::uint64_t stream) {
    snapshot.traces[0].events.append(trace_event(action, at(mib), size, stream, pool));
  }
  void made(std::int64_t mib, std::int64_t size, std::uint64_t stream = 0) { event(TraceAction::segment_alloc, mib, size, stream); }
  void gone(std::int64_t mib, std::int64_t size, std::uint64_t stream = 0) { event(TraceAction::segment_free, mib, size, stream); }
  void alloc(std::int64_t mib, std::int64_t size, std::uint64_t stream = 0) { event(TraceAction::alloc, mib, size, stream); }
  void free(std::int64_t mib, std::int64_t size, std::uint64_t stream = 0) {
    event(TraceAction::free_requested, mib, size, stream);
    event(TraceAction::free_completed, mib, size, stream);
  }
  void stands(std::int64_t mib, PoolId of, std::uint64_t stream, std::vector<std::pair<std::int64_t, bool>> blocks) {
    SnapshotSegment segment;
    segment.address = at(mib);
    segment.stream = stream;
    segment.pool = of;
    segment.large = true;
    segment.first_block = static_cast<std::uint32_t>(snapshot.blocks.size());
    for (const auto& [size, used] : blocks) {
      SnapshotBlock block;
      block.address = segment.address + static_cast<std::uint64_t>(segment.total_size);
      block.size = block.requested_size = size * kMiB;
      block.state = used ? BlockState::allocated : BlockState::inactive;
      segment.total_size += block.size;
      snapshot.blocks.push_back(block);
      ++segment.blocks;
    }
    snapshot.segments.push_back(segment);
  }
  // The replay makes and gives back the same segments, and has the same peak.
  void met() {
    snapshot.traces[0].events.finish();
    const auto trace = replay_trace(snapshot, 0);
    REQUIRE(trace);
    CHECK(trace->skipped == 0);
    const ReplayCheck check = check_replay(*trace);
    CHECK(check.reserved_error_percent == 0);
    CHECK(check.segments_replayed == check.segments_recorded);
    CHECK(check.result.segments_freed == trace->recorded.segments_freed);
    CHECK(check.result.reserved_end.count() == trace->recorded.end_reserved);
  }
  std::vector<PoolId> pools() { return segment_pools(snapshot, 0, AllocConf{}); }
};

}  // namespace

TEST_CASE("the pool that the dump states is that of the last segment at its address, not of an earlier one") {
  Script s;
  s.made(100, 20, 7), s.alloc(100, 2, 7), s.free(100, 2, 7);   // a warm-up
  s.gone(100, 20, 7);                                          // the cache is emptied before the capture
  s.made(100, 20, 8), s.alloc(100, 2, 8);                      // the capture, at the same address
  s.stands(100, kGraph, 8, {{2, true}, {18, false}});
  s.met();
  CHECK(s.pools() == std::vector<PoolId>{PoolId{}, kGraph});
}

TEST_CASE("a graph's segments stay when the cache is emptied, and go with the first release after its reset") {
  Script s;
  s.made(0, 20), s.alloc(0, 2);
  s.made(100, 20, 7), s.alloc(100, 2, 7), s.free(100, 2, 7);   // the first capture: nothing of it is in use after it
  s.made(300, 40), s.alloc(300, 40), s.free(300, 40);
  s.gone(300, 40);                                             // emptied before the second capture, which asks for a new pool
  s.made(200, 20, 7), s.alloc(200, 2, 7), s.free(200, 2, 7);
  s.alloc(2, 2);
  s.gone(100, 20, 7), s.gone(200, 20, 7);                      // both graphs are gone
  s.alloc(4, 2);
  s.stands(0, PoolId{}, 0, {{2, true}, {2, true}, {2, true}, {14, false}});
  s.met();
  const auto pools = s.pools();
  REQUIRE(pools.size() == 4);
  CHECK(pools[0].is_default());
  CHECK_FALSE(pools[1].is_default());
  CHECK(pools[2].is_default());
  CHECK(pools[3] != pools[1]);
}

TEST_CASE("several graphs share one pool, and it goes only with the last of them") {
  Script s;
  s.made(100, 20, 7), s.alloc(100, 2, 7), s.free(100, 2, 7);
  s.alloc(100, 4, 7), s.free(100, 4, 7);                       // the second graph takes the same blocks
  s.made(300, 40), s.alloc(300, 40), s.free(300, 40), s.gone(300, 40);
  s.alloc(100, 6, 7), s.free(100, 6, 7);
  s.stands(100, kGraph, 7, {{20, false}});
  s.met();
}

TEST_CASE("a MemPool that dies gives back its own segments alone") {
  Script s;
  s.snapshot.events_name_pools = true;
  s.made(0, 20), s.alloc(0, 2), s.free(0, 2);
  s.pool = kMemPool;
  s.made(100, 20), s.alloc(100, 4), s.free(100, 4);
  s.gone(100, 20);
  s.pool = PoolId{};
  s.alloc(0, 6);                                               // from the default cache, which stayed
  s.stands(0, PoolId{}, 0, {{6, true}, {14, false}});
  s.met();
  CHECK(s.pools() == std::vector<PoolId>{PoolId{}, kMemPool});
}

TEST_CASE("a checkpoint of a graph's pool is put back where it was, without a search") {
  Script s;
  s.made(0, 20, 7), s.alloc(0, 2, 7), s.free(0, 2, 7);
  s.made(100, 40, 7), s.alloc(100, 40, 7), s.free(100, 40, 7);
  s.alloc(100, 2, 7), s.alloc(102, 38, 7);
  s.alloc(0, 2, 7), s.alloc(2, 2, 7), s.alloc(4, 16, 7);
  s.free(100, 2, 7), s.free(2, 2, 7), s.free(4, 16, 7);
  s.made(200, 20, 7), s.alloc(200, 19, 7);                     // 18 MiB are free in the first segment; a search would have left it empty
  s.stands(0, kGraph, 7, {{2, true}, {18, false}});
  s.stands(100, kGraph, 7, {{2, false}, {38, true}});
  s.stands(200, kGraph, 7, {{19, true}, {1, false}});
  s.snapshot.blocks.back().size = 0;                           // the rest of 1 MiB is never split off
  s.snapshot.blocks[s.snapshot.blocks.size() - 2].size = 20 * kMiB;
  s.met();
}

TEST_CASE("a pool with an allocator of its own has no expandable segments") {
  Script s;
  s.snapshot.settings.known = s.snapshot.settings.expandable_segments = true;
  s.snapshot.settings.configuration = "expandable_segments:True";
  s.made(100, 20), s.alloc(100, 4);
  s.stands(100, kMemPool, 0, {{4, true}, {16, false}});
  s.met();
}

TEST_CASE("a pool that never splits takes whole segments") {
  Script s;
  s.made(100, 20), s.alloc(100, 4);
  s.made(200, 20), s.alloc(200, 4);
  for (const std::int64_t mib : {100, 200}) {
    s.stands(mib, kMemPool, 0, {{20, true}});
    s.snapshot.blocks.back().requested_size = 4 * kMiB;
  }
  s.met();
}
