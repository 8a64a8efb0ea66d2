// Growth from step to step in real traces: where nothing leaks none is told; a leak that is put into a real run is found, by marks and without.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "parsers/snapshot/repeats.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"
#include "parsers/snapshot/step_growth.hpp"
#include "parsers/snapshot/summary.hpp"
#include "tests/support/gunzip.hpp"

using namespace triage::parsers;

namespace {

constexpr std::int64_t kMiB = 1 << 20;
const std::string kSnapshots = TRIAGE_SOURCE_DIR "/tests/snapshots/";

AllocatorSnapshot read(const std::string& name) {
  auto snapshot = read_snapshot(triage::tests::gunzip_file(kSnapshots + name + ".pickle.gz"), name);
  REQUIRE(snapshot.ok());
  return std::move(snapshot).value();
}

DeviceSummary summary_of(const AllocatorSnapshot& snapshot, std::int64_t device_bytes = 0) {
  SummaryOptions options;
  options.device_bytes = device_bytes;
  auto all = summarize(snapshot, options);
  REQUIRE_FALSE(all.empty());
  return std::move(all.front());
}

// After the end of each optimizer step one block more, which stays.
StackId leak_into(AllocatorSnapshot& snapshot, std::int64_t bytes) {
  StackFrame frame;
  frame.file = snapshot.stacks.text("train.py");
  frame.function = snapshot.stacks.text("remember");
  frame.line = 71;
  const FrameId id = snapshot.stacks.frame(frame);
  const StackId stack = snapshot.stacks.stack({&id, 1});
  std::vector<std::int64_t> ends;
  for (const SnapshotAnnotation& mark : snapshot.annotations)
    if (!mark.start && snapshot.stacks.text_of(mark.name).starts_with("Optimizer.step")) ends.push_back(mark.time_us);
  AllocatorTrace events;
  TraceEvent event;
  std::size_t next = 0;
  std::uint64_t address = 0x10000000;
  for (auto cursor = snapshot.traces[0].events.events(); cursor.next(event);) {
    for (; next < ends.size() && event.time_us > ends[next]; ++next) {
      TraceEvent more;
      more.action = TraceAction::segment_alloc;
      more.address = address;
      more.size = bytes;
      more.stack = stack;
      more.time_us = ends[next] + 1;
      events.append(more);
      more.action = TraceAction::alloc;
      events.append(more);
      SnapshotSegment segment;
      segment.address = address;
      segment.total_size = segment.active_size = segment.allocated_size = bytes;
      segment.large = true;
      segment.first_block = static_cast<std::uint32_t>(snapshot.blocks.size());
      segment.blocks = 1;
      snapshot.blocks.push_back({address, bytes, bytes, stack, BlockState::allocated});
      snapshot.segments.push_back(segment);
      address += static_cast<std::uint64_t>(bytes);
    }
    events.append(event);
  }
  events.finish();
  snapshot.traces[0].events = std::move(events);
  return stack;
}

}  // namespace

TEST_CASE("real runs that do not leak tell no growth, with their marks and without") {
  for (const char* name : {"replay/llama-varlen.snapshot", "ok_train", "capacity_forward", "capacity_forward-with-checkpointing", "logits_spike", "model_load", "optimizer_first_step",
                           "other_process", "qwen3_moe", "megatron-oom-dense-forward", "megatron-oom-dense-nodistopt", "replay/synthetic-small.snapshot", "replay/synthetic-large.snapshot"}) {
    CAPTURE(std::string(name));
    AllocatorSnapshot snapshot = read(name);
    CHECK_FALSE(summary_of(snapshot).leak.has_value());
    snapshot.annotations.clear();
    CHECK_FALSE(summary_of(snapshot).leak.has_value());
  }
}

TEST_CASE("a leak put into a real run of twelve steps of other lengths is found") {
  AllocatorSnapshot snapshot = read("replay/llama-varlen.snapshot");
  const StackId stack = leak_into(snapshot, 64 * kMiB);
  DeviceSummary marked = summary_of(snapshot, std::int64_t{80} << 30);
  REQUIRE(marked.leak.has_value());
  CHECK(marked.steps_marked);
  CHECK(marked.leak->anchor == 0);
  REQUIRE(marked.leak->stacks.size() == 1);
  CHECK(marked.leak->stacks[0].stack == stack);
  CHECK(marked.leak->bytes_per_step == 64 * kMiB);
  REQUIRE(marked.leak->steps_left.has_value());
  const double room = static_cast<double>((std::int64_t{80} << 30) - marked.now.allocated);
  CHECK(*marked.leak->steps_left == doctest::Approx(room / (64 * kMiB)));

  snapshot.annotations.clear();
  const DeviceSummary unmarked = summary_of(snapshot);
  REQUIRE(unmarked.leak.has_value());
  CHECK_FALSE(unmarked.steps_marked);
  CHECK(unmarked.leak->anchor != 0);
  REQUIRE(unmarked.leak->stacks.size() == 1);
  CHECK(unmarked.leak->stacks[0].stack == stack);
  CHECK(unmarked.leak->bytes_per_step == 64 * kMiB);
}

TEST_CASE("which stack turns a loop") {
  StackTable table;
  const auto stack = [&](std::vector<std::pair<std::string, std::string>> frames) {   // innermost first
    std::vector<FrameId> ids;
    for (const auto& [file, function] : frames) {
      StackFrame frame;
      frame.file = table.text(file);
      frame.function = table.text(function);
      frame.line = 3;
      ids.push_back(table.frame(frame));
    }
    return table.stack(ids);
  };
  const StackId batch = stack({{"train.py", "batch"}, {"train.py", "main"}});
  const StackId layer = stack({{"model.py", "forward"}, {"torch/nn/modules/module.py", "_call_impl"}, {"train.py", "main"}});
  const StackId inner = stack({{"model.py", "norm"}, {"model.py", "forward"}, {"torch/nn/modules/module.py", "_call_impl"}, {"train.py", "main"}});
  const StackId build = stack({{"model.py", "__init__"}, {"train.py", "main"}});

  SUBCASE("the batch of an evaluation, not the layers") {
    RepeatFinder finder(table.stacks());
    std::size_t event = 0;
    for (int turn = 0; turn < 6; ++turn) {
      finder.alloc(batch, event++);
      for (int i = 0; i < 8; ++i) {
        finder.alloc(layer, event++);
        finder.alloc(inner, event++);
        finder.freed();
        ++event;
      }
    }
    const auto anchor = finder.anchor(table, event);
    REQUIRE(anchor.has_value());
    CHECK(anchor->stack == batch);
    CHECK(anchor->turns == 6);
  }
  SUBCASE("the layers of one forward pass are no steps") {
    RepeatFinder finder(table.stacks());
    std::size_t event = 0;
    finder.alloc(batch, event++);
    for (int i = 0; i < 40; ++i) {
      finder.alloc(layer, event++);
      finder.alloc(inner, event++);
      finder.freed();
      ++event;
    }
    CHECK_FALSE(finder.anchor(table, event).has_value());
  }
  SUBCASE("nor is the building of a model") {
    RepeatFinder finder(table.stacks());
    for (std::size_t event = 0; event < 90; ++event) finder.alloc(build, event);
    CHECK_FALSE(finder.anchor(table, 90).has_value());
  }
  SUBCASE("a loop at the start that ended long ago") {
    RepeatFinder finder(table.stacks());
    std::size_t event = 0;
    for (int turn = 0; turn < 6; ++turn) {
      finder.alloc(batch, event);
      finder.freed();
      event += 10;
    }
    CHECK_FALSE(finder.anchor(table, 1000).has_value());
  }
}

TEST_CASE("growth by samples: nearly every step, never down; few samples only where they grow evenly") {
  const auto grown = [](std::size_t warm_up, bool even, std::vector<std::int64_t> samples) {
    StepGrowth growth(2, warm_up, even);
    for (const std::int64_t bytes : samples) growth.sample({7, bytes});
    return growth.leak({7, samples.back()});
  };
  const auto leak = grown(1, false, {500, 10, 20, 30, 40});
  REQUIRE(leak.has_value());
  CHECK(leak->steps == 4);
  CHECK(leak->bytes_per_step == 10);
  CHECK(leak->stacks[0].stack == 1);
  CHECK(leak->stacks[0].bytes == 40);
  CHECK_FALSE(grown(0, false, {10, 20}).has_value());            // too few
  CHECK_FALSE(grown(0, false, {10, 20, 15, 30}).has_value());    // goes down
  CHECK_FALSE(grown(0, false, {10, 20, 20, 20, 20}).has_value());   // a cache that is full
  CHECK(grown(0, false, {10, 20, 50, 60}).has_value());
  CHECK_FALSE(grown(0, true, {10, 20, 50}).has_value());         // three samples of growing batches
  CHECK(grown(0, true, {10, 20, 30}).has_value());
  StepGrowth freed(1, 0, false);
  for (const std::int64_t bytes : {10, 20, 30, 40}) freed.sample({bytes});
  CHECK(freed.leak({40}).has_value());
  CHECK_FALSE(freed.leak({3}).has_value());                      // given back after the loop
}
