#include "signatures/memory/replay_recording.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "signatures/memory/allocator_replay.hpp"
#include "tests/support/trace_script.hpp"

using namespace triage::signatures;
using triage::parsers::BlockState;
using triage::parsers::SnapshotBlock;
using triage::parsers::SnapshotSegment;
using triage::parsers::TraceAction;
using triage::tests::at;
using triage::tests::kMiB;
using triage::tests::trace_event;

namespace {

AllocConf conf(const std::string& text) {
  auto read = read_alloc_conf(text);
  REQUIRE(read.ok());
  return *read;
}

void event(ReplayTraceBuilder& builder, TraceAction action, std::uint64_t address, std::int64_t mib, std::uint64_t stream = 0) {
  builder.event(trace_event(action, address, mib, stream));
}

void segment(ReplayTraceBuilder& builder, std::uint64_t address, std::vector<std::pair<std::int64_t, BlockState>> blocks, bool expandable) {
  SnapshotSegment segment;
  segment.address = address;
  segment.expandable = expandable;
  segment.large = true;
  std::vector<SnapshotBlock> list;
  for (const auto& [mib, state] : blocks) {
    SnapshotBlock block;
    block.size = block.requested_size = mib * kMiB;
    block.state = state;
    segment.total_size += block.size;
    list.push_back(block);
  }
  builder.segment(segment, list);
}

}  // namespace

TEST_CASE("a recording under expandable segments is met, from its first event and from the middle") {
  const auto run = [](bool whole) {
    ReplayTraceBuilder builder(conf("expandable_segments:True"), true, nullptr);
    segment(builder, at(0), {{30, BlockState::allocated}, {5, BlockState::allocated}, {50, BlockState::allocated}, {15, BlockState::inactive}}, true);
    if (whole) {
      event(builder, TraceAction::segment_map, at(0), 40);
      event(builder, TraceAction::alloc, at(0), 30);
    }
    event(builder, TraceAction::alloc, at(30), 5);
    event(builder, TraceAction::segment_map, at(40), 60);
    event(builder, TraceAction::alloc, at(35), 50);
    return builder.finish();
  };
  for (const bool whole : {true, false}) {
    CAPTURE(whole);
    const ReplayTrace trace = run(whole);
    CHECK(trace.complete == whole);
    CHECK(trace.skipped == 0);
    CHECK(trace.recorded.reserved_peak == 100 * kMiB);
    const ReplayCheck check = check_replay(trace);
    CHECK(check.reserved_error_percent == 0);
    CHECK(check.result.allocated_end.count() == 85 * kMiB);
    const ReplayResult plain = replay(trace, conf(""));
    CHECK(plain.reserved_peak.count() == (30 + 20 + 50) * kMiB);
  }
}

TEST_CASE("the start is rebuilt with what was cached, and a block keeps the rest that is never split off") {
  ReplayTraceBuilder builder(conf(""), true, nullptr);
  segment(builder, at(0), {{20, BlockState::allocated}, {80, BlockState::inactive}}, false);
  event(builder, TraceAction::free_requested, at(200), 39);     // of a segment that is gone at the end
  event(builder, TraceAction::free_completed, at(200), 39);
  event(builder, TraceAction::segment_free, at(200), 40);
  const ReplayTrace trace = builder.finish();
  REQUIRE(trace.start.size() == 2);
  CHECK(trace.start[0].blocks.size() == 2);
  REQUIRE(trace.start[1].blocks.size() == 1);
  CHECK(trace.start[1].blocks[0].bytes == 40 * kMiB);
  CHECK(trace.start[1].blocks[0].requested == 39 * kMiB);
  CHECK(trace.recorded.start_reserved == 140 * kMiB);
  CHECK(trace.recorded.end_reserved == 100 * kMiB);
  const ReplayCheck check = check_replay(trace);
  CHECK(check.reserved_error_percent == 0);
  CHECK(check.result.reserved_end.count() == 100 * kMiB);   // the cached part stands beside a live block
}

TEST_CASE("a block that another stream uses is free when the recording says so") {
  ReplayTraceBuilder builder(conf(""), true, nullptr);
  event(builder, TraceAction::segment_alloc, at(0), 50);
  event(builder, TraceAction::alloc, at(0), 50);
  event(builder, TraceAction::free_requested, at(0), 50);
  event(builder, TraceAction::segment_alloc, at(100), 50);
  event(builder, TraceAction::alloc, at(100), 50);
  event(builder, TraceAction::free_completed, at(0), 50);
  event(builder, TraceAction::alloc, at(0), 50);
  const ReplayTrace trace = builder.finish();
  const ReplayResult result = replay(trace, conf(""));
  CHECK(result.segments_allocated == 2);
  CHECK(result.active_peak.count() == 100 * kMiB);
  CHECK(result.allocated_peak.count() == 100 * kMiB);
}

TEST_CASE("requests that no block can have are taken as the block's size") {
  ReplayTraceBuilder builder(conf(""), true, nullptr);
  SnapshotSegment made;
  made.address = at(0);
  made.large = true;
  std::vector<SnapshotBlock> blocks;
  for (const std::int64_t requested : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-5}, std::numeric_limits<std::int64_t>::max(), std::int64_t{3}}) {
    SnapshotBlock block;
    block.size = 20 * kMiB;
    block.requested_size = requested;
    block.state = BlockState::allocated;
    made.total_size += block.size;
    blocks.push_back(block);
  }
  builder.segment(made, blocks);
  const ReplayTrace trace = builder.finish();
  REQUIRE(trace.start.size() == 1);
  std::vector<std::int64_t> requested;
  for (const auto& block : trace.start[0].blocks) requested.push_back(block.requested);
  CHECK(requested == std::vector<std::int64_t>{20 * kMiB, 20 * kMiB, 20 * kMiB, 3});
}
