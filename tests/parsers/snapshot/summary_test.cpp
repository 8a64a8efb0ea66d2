#include "parsers/snapshot/summary.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace triage::parsers;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// A snapshot made by hand: events of one device, and the segments that they lead to.
struct Maker {
  AllocatorSnapshot snapshot;
  std::int64_t now = 1'000'000;
  int device = 0;

  Maker() {
    snapshot.has_traces = snapshot.segments_whole = snapshot.traces_whole = true;
    snapshot.traces.emplace_back();
  }
  StackId stack(const std::string& function) {
    StackFrame frame;
    frame.file = snapshot.stacks.text("train.py");
    frame.function = snapshot.stacks.text(function);
    frame.line = 1;
    const FrameId id = snapshot.stacks.frame(frame);
    return snapshot.stacks.stack({&id, 1});
  }
  void event(TraceAction action, std::uint64_t address, std::int64_t size, StackId stack = 0) {
    TraceEvent event;
    event.action = action;
    event.address = address;
    event.size = size;
    event.stack = stack;
    event.time_us = ++now;
    snapshot.traces[0].events.append(event);
  }
  void alloc(std::uint64_t address, std::int64_t size, StackId stack) { event(TraceAction::alloc, address, size, stack); }
  void release(std::uint64_t address, std::int64_t size, StackId stack = 0) {
    event(TraceAction::free_requested, address, size);
    event(TraceAction::free_completed, address, size, stack);
  }
  void step() {
    SnapshotAnnotation mark;
    mark.start = false;
    mark.name = snapshot.stacks.text("Optimizer.step#AdamW.step");
    mark.time_us = ++now;
    snapshot.annotations.push_back(mark);
  }
  void segment(std::uint64_t address, const std::vector<std::pair<std::int64_t, BlockState>>& blocks, StackId stack = 0) {
    SnapshotSegment made;
    made.address = address;
    made.device = device;
    made.large = true;
    made.first_block = static_cast<std::uint32_t>(snapshot.blocks.size());
    made.blocks = static_cast<std::uint32_t>(blocks.size());
    for (const auto& [size, state] : blocks) {
      snapshot.blocks.push_back({address, size, size, stack, state});
      address += static_cast<std::uint64_t>(size);
      made.total_size += size;
      if (state != BlockState::inactive) made.active_size += size;
    }
    snapshot.segments.push_back(made);
  }
  DeviceSummary summary(std::size_t points = 0) {
    snapshot.traces[0].events.finish();
    SummaryOptions options;
    options.timeline_points = points;
    const auto all = summarize(snapshot, options);
    REQUIRE_FALSE(all.empty());
    return all[0];
  }
};

}  // namespace

TEST_CASE("what a ring buffer has lost is worked back from the end") {
  Maker m;
  const StackId early = m.stack("early"), late = m.stack("late");
  // Lived before the first event: 40 MiB that stays, 64 MiB that the trace frees after the peak.
  m.alloc(0x10000000, 100 * kMiB, late);
  m.release(0x50000000, 64 * kMiB, early);
  m.release(0x10000000, 100 * kMiB, late);
  m.segment(0x70000000, {{40 * kMiB, BlockState::allocated}, {24 * kMiB, BlockState::inactive}}, early);
  m.segment(0x50000000, {{64 * kMiB, BlockState::inactive}});
  m.segment(0x10000000, {{100 * kMiB, BlockState::inactive}});
  const DeviceSummary s = m.summary();
  CHECK(s.trace_cut);
  CHECK(s.now.allocated == 40 * kMiB);
  REQUIRE(s.peak.has_value());
  CHECK(s.peak->allocated == 204 * kMiB);
  REQUIRE(s.peak->blocks.size() == 3);
  CHECK(s.peak->blocks[0].stack == late);
  CHECK(s.peak->blocks[1].stack == early);
  CHECK(s.peak->reserved == 228 * kMiB);
  CHECK(s.fragmentation.unallocated == 188 * kMiB);
  CHECK(s.segments.empty == 2);
  CHECK(s.fragmentation.inactive_split == 24 * kMiB);
}

TEST_CASE("memory that grows from step to step is named by its stack, and only that") {
  Maker m;
  const StackId leak = m.stack("append_loss"), work = m.stack("forward"), cache = m.stack("first_step_only");
  m.event(TraceAction::segment_alloc, 0x10000000, 1024 * kMiB);
  for (int step = 0; step < 8; ++step) {
    if (step == 0) m.alloc(0x20000000, 32 * kMiB, cache);
    m.alloc(0x10000000, (100 + step) * kMiB, work);
    m.alloc(0x30000000 + static_cast<std::uint64_t>(step) * 0x1000000, 8 * kMiB, leak);
    m.release(0x10000000, (100 + step) * kMiB, work);
    m.step();
  }
  m.segment(0x20000000, {{32 * kMiB, BlockState::allocated}}, cache);
  for (std::uint64_t step = 0; step < 8; ++step) m.segment(0x30000000 + step * 0x1000000, {{8 * kMiB, BlockState::allocated}}, leak);
  const DeviceSummary s = m.summary();
  CHECK(s.step_ends.size() == 8);
  REQUIRE(s.leak.has_value());
  CHECK(s.leak->bytes_per_step == 8 * kMiB);
  REQUIRE(s.leak->stacks.size() == 1);
  CHECK(s.leak->stacks[0].stack == leak);
  CHECK(s.leak->stacks[0].bytes == 64 * kMiB);
}

TEST_CASE("the failure and what stood then, though it was freed before the dump") {
  Maker m;
  const StackId big = m.stack("big"), asked = m.stack("asked");
  m.event(TraceAction::segment_map, 0x10000000, 512 * kMiB);
  m.alloc(0x10000000, 300 * kMiB, big);
  m.alloc(0x30000000, 600 * kMiB, big);
  m.release(0x30000000, 600 * kMiB, big);
  m.event(TraceAction::oom, 77 * kMiB, 900 * kMiB, asked);
  m.release(0x10000000, 300 * kMiB, big);
  m.event(TraceAction::segment_unmap, 0x10000000, 512 * kMiB);
  m.segment(0x90000000, {{2 * kMiB, BlockState::inactive}});
  const DeviceSummary s = m.summary(3);
  REQUIRE(s.oom.has_value());
  CHECK(s.oom->requested == 900 * kMiB);
  CHECK(s.oom->device_free == 77 * kMiB);
  CHECK(s.oom->stack == asked);
  CHECK(s.oom->state.allocated == 300 * kMiB);
  CHECK(s.oom->state.reserved == 514 * kMiB);
  CHECK(s.peak->allocated == 900 * kMiB);
  CHECK(s.reserved_peak == 514 * kMiB);
  CHECK_FALSE(s.timeline.empty());
}

TEST_CASE("sums that cannot be are told, and reading goes on") {
  Maker m;
  m.segment(0x10000000, {{3 * kMiB, BlockState::allocated}});
  m.snapshot.segments[0].total_size = 2 * kMiB;       // less than its block
  m.segment(0x20000000, {{4 * kMiB, BlockState::allocated}});
  m.snapshot.segments[1].active_size = 1;
  m.segment(0x30000000, {{5 * kMiB, BlockState::allocated}});
  m.snapshot.blocks[2].size = -1;
  m.segment(0x40000000, {{6 * kMiB, BlockState::allocated}});
  m.snapshot.segments[3].total_size = -5;
  const DeviceSummary s = m.summary();
  CHECK(s.faults.size() >= 4);
  CHECK(s.now.allocated >= 7 * kMiB);
  for (const std::string& fault : s.faults) CHECK_FALSE(fault.empty());
}

TEST_CASE("events of sizes that cannot be are counted, and where the first one stands") {
  Maker m;
  const StackId a = m.stack("a");
  m.alloc(0x10000000, 10 * kMiB, a);
  m.alloc(0x20000000, -1, a);                              // what the reader makes of all negative sizes
  m.alloc(0x30000000, std::int64_t{1} << 44, a);           // and of sizes that no device has
  m.event(TraceAction::oom, 77 * kMiB, -1, a);
  m.segment(0x10000000, {{10 * kMiB, BlockState::allocated}}, a);
  const DeviceSummary s = m.summary();
  REQUIRE(s.faults.size() == 1);
  CHECK(s.faults[0] == "3 events of the trace have impossible sizes, the first is number 2 of 4");
  REQUIRE(s.oom.has_value());
  CHECK(s.oom->requested == 0);
}

TEST_CASE("a free that was lost does not count a block twice") {
  Maker m;
  const StackId a = m.stack("a"), b = m.stack("b");
  m.alloc(0x10000000, 10 * kMiB, a);
  m.alloc(0x10000000, 20 * kMiB, b);                   // the same address again
  m.segment(0x10000000, {{20 * kMiB, BlockState::allocated}}, b);
  const DeviceSummary s = m.summary();
  CHECK(s.now.allocated == 20 * kMiB);
  REQUIRE(s.peak.has_value());
  CHECK(s.peak->blocks.size() == 1);
  CHECK(s.peak->blocks[0].stack == b);
}

TEST_CASE("small live blocks that keep large segments are counted by their stack") {
  Maker m;
  const StackId pin = m.stack("keep_small"), fill = m.stack("fill");
  for (std::uint64_t i = 0; i < 5; ++i)
    m.segment(0x10000000 * (i + 1), {{1 * kMiB, BlockState::allocated}, {99 * kMiB, BlockState::inactive}}, pin);
  m.segment(0x90000000, {{100 * kMiB, BlockState::allocated}}, fill);
  const DeviceSummary s = m.summary();
  REQUIRE(s.fragmentation.pinned.size() == 1);
  CHECK(s.fragmentation.pinned[0].stack == pin);
  CHECK(s.fragmentation.pinned[0].segments == 5);
  CHECK(s.fragmentation.pinned[0].free_bytes == 495 * kMiB);
  CHECK(s.fragmentation.largest_free == 99 * kMiB);
}
