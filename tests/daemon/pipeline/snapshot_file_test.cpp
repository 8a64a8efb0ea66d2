#include "daemon/pipeline/snapshot_file.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/cli/snapshot_view.hpp"
#include "daemon/http/snapshot_html.hpp"
#include "daemon/http/snapshot_json.hpp"
#include "daemon/pipeline/snapshot_compare.hpp"

using namespace triage::daemon;
using namespace triage::parsers;
using triage::signatures::category_name;
using triage::signatures::CategoryBytes;

namespace {

SnapshotAnalysis analysed(const std::string& name, std::size_t timeline = 0) {
  const std::string path = std::string(TRIAGE_SOURCE_DIR) + "/tests/snapshots/" + name + ".pickle.gz";
  auto loaded = load_snapshot(path);
  REQUIRE(loaded.ok());
  SummaryOptions options;
  options.timeline_points = timeline;
  return analyze_snapshot(path, std::move(loaded).value(), options);
}

double gib_of(const triage::signatures::MemoryComposition& composition, const std::string& name) {
  for (const CategoryBytes& by : composition.categories)
    if (category_name(by.category) == name) return Bytes(by.bytes).gib();
  return 0;
}

}  // namespace

// The runs are those of the logs in tests/corpus/recorded; what they held is known from their model and from the log's own figures.
TEST_CASE("what filled the device at the failure is told by category") {
  struct Row {
    const char* name;
    double requested_gib;                            // the log's "Tried to allocate"
    std::map<std::string, double> gib;
  };
  const std::vector<Row> rows = {
      // 41.115 GiB of bf16 weights; gradients as large; Adam's two states for what was reached.
      {"optimizer_first_step", 0.109375, {{"weights", 41.115}, {"gradients", 41.115}, {"optimizer", 54.381}}},
      {"capacity_forward", 2.0, {{"weights", 8.457}, {"activations", 126.622}}},
      {"capacity_forward-with-checkpointing", 62.62, {{"weights", 8.457}, {"logits", 93.939}, {"activations", 20.04}}},
      {"logits_spike", 128.0, {{"weights", 2.168}, {"logits", 64.0}, {"activations", 23.557}}},
      {"model_load", 0.109375, {{"weights", 137.859}}},
      {"qwen3_moe", 0.5, {{"weights", 15.088}, {"activations", 123.33}}},
      // Megatron: gradients in fp32 are twice the bf16 weights; without a distributed optimizer its fp32 copy of the weights is twice too.
      {"megatron-oom-dense-forward", 4.0, {{"weights", 11.707}, {"gradients", 23.415}, {"optimizer", 2.927}, {"activations", 93.5}}},
      {"megatron-oom-dense-nodistopt", 1.957, {{"weights", 21.458}, {"gradients", 42.916}, {"optimizer", 42.916}, {"activations", 28.675}}},
      {"fragmentation", 30.0, {{"unattributed", 7.57}}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const SnapshotAnalysis analysis = analysed(row.name);
    REQUIRE(analysis.devices.size() == 1);
    const DeviceSummary& s = analysis.devices[0].summary;
    REQUIRE(s.oom.has_value());
    CHECK(Bytes(s.oom->requested).gib() == doctest::Approx(row.requested_gib).epsilon(0.001));
    for (const auto& part : row.gib) {
      CAPTURE(part.first);
      CHECK(gib_of(*analysis.devices[0].oom, part.first) == doctest::Approx(part.second).epsilon(0.001));
    }
  }
}

TEST_CASE("sums agree to the byte") {
  for (const char* name : {"optimizer_first_step", "capacity_forward", "capacity_forward-with-checkpointing", "logits_spike", "model_load", "qwen3_moe", "ok_train",
                           "megatron-oom-dense-forward", "megatron-oom-dense-nodistopt", "fragmentation", "other_process"}) {
    CAPTURE(std::string(name));
    const SnapshotAnalysis analysis = analysed(name);
    for (const DeviceAnalysis& device : analysis.devices) {
      const DeviceSummary& s = device.summary;
      CHECK(s.faults.empty());
      std::int64_t active = 0, reserved = 0, categories = 0, stacks = 0, live = 0;
      for (const SnapshotSegment& segment : analysis.snapshot.segments) {
        active += segment.active_size;
        reserved += segment.total_size;
      }
      CHECK(s.now.active == active);
      CHECK(s.now.reserved == reserved);
      for (const LiveBlock& block : s.now.blocks) live += block.size;
      CHECK(live == s.now.allocated);
      for (const CategoryBytes& by : device.now.categories) categories += by.bytes;
      CHECK(categories == s.now.allocated);
      for (const auto& by : device.now.stacks) stacks += by.bytes;
      CHECK(stacks == s.now.allocated);
      CHECK(s.fragmentation.unallocated == s.fragmentation.inactive_split + s.segments.empty_bytes);
      if (s.oom) {   // the dump was made in the handler: nothing was freed meanwhile
        CHECK(s.oom->state.allocated == s.now.allocated);
        CHECK(s.oom->state.reserved == s.now.reserved);
      }
      if (s.peak) CHECK(s.peak->allocated >= s.now.allocated);
    }
  }
}

TEST_CASE("fragmentation names the request that did not fit and who holds the segments") {
  const SnapshotAnalysis analysis = analysed("fragmentation");
  const Fragmentation& f = analysis.devices.at(0).summary.fragmentation;
  CHECK(f.blocked_request);
  CHECK(Bytes(f.unallocated).gib() == doctest::Approx(118.6).epsilon(0.001));
  REQUIRE_FALSE(f.pinned.empty());
  CHECK(f.pinned[0].segments == 646);
  CHECK(stack_text(analysis.snapshot.stacks, f.pinned[0].stack, 2).find("fragmentation") != std::string::npos);
}

// A list that keeps the logits of each step: 2,097,152 bytes, recorded on an H200; and the same loop without the list.
TEST_CASE("a leak is told with its bytes a step and the line that keeps them") {
  const SnapshotAnalysis leaking = analysed("lab_leak_logits");
  const auto& leak = leaking.devices.at(0).summary.leak;
  REQUIRE(leak);
  CHECK(leak->bytes_per_step == 2097152);
  REQUIRE_FALSE(leak->stacks.empty());
  bool found = false;
  for (const auto frame : leaking.snapshot.stacks.frames_of(leak->stacks[0].stack)) found = found || leaking.snapshot.stacks.function_of(frame) == "keep_logits";
  CHECK(found);
  CHECK_FALSE(analysed("lab_leak_graph").devices.at(0).summary.leak);
}

TEST_CASE("a healthy run has no growth, and its steps are marked") {
  const SnapshotAnalysis analysis = analysed("ok_train", 100);
  const DeviceSummary& s = analysis.devices.at(0).summary;
  CHECK_FALSE(s.leak.has_value());
  CHECK_FALSE(s.oom.has_value());
  CHECK(s.step_ends.size() == 3);
  CHECK(s.timeline.size() >= 100);
  CHECK(s.timeline.size() <= 102);
  std::int64_t highest = 0;
  for (const TimelinePoint& point : s.timeline) highest = std::max(highest, point.allocated_high);
  CHECK(Bytes(highest).gib() == doctest::Approx(Bytes(s.peak->allocated).gib()).epsilon(0.01));
}

TEST_CASE("two snapshots are compared by the texts of their stacks") {
  const SnapshotAnalysis before = analysed("capacity_forward"), after = analysed("capacity_forward-with-checkpointing");
  const auto changes = compare_snapshots(before, after);
  REQUIRE(changes.size() == 1);
  REQUIRE_FALSE(changes[0].categories.empty());
  CHECK(category_name(changes[0].categories[0].category) == "activations");
  CHECK(changes[0].categories[0].after < changes[0].categories[0].before);
  const auto none = compare_snapshots(before, before);
  REQUIRE(none.size() == 1);
  for (const StackChange& stack : none[0].stacks) CHECK(stack.before == stack.after);
}

TEST_CASE("the views hold what the analysis found") {
  const SnapshotAnalysis analysis = analysed("optimizer_first_step");
  TextStyle style;
  style.width = 120;
  const std::string text = snapshot_text(analysis, style);
  CHECK(text.find("out of memory, 112.00 MiB asked for") != std::string::npos);
  CHECK(text.find("optimizer states") != std::string::npos);
  CHECK(std::ranges::count(text, '\n') < 40);
  const Json json = snapshot_json(analysis);
  const Json& device = json["devices"][0];
  for (const char* key : {"device", "allocated_bytes", "active_bytes", "reserved_bytes", "inactive_split_bytes", "peak", "categories", "top_stacks", "segments", "fragmentation",
                          "leak", "oom", "replay_check", "what_if"})
    CHECK(device.contains(key));
  CHECK(device["oom"]["requested_bytes"] == 117440512);
  CHECK(device["categories"][0]["category"] == "optimizer");
  std::vector<SnapshotAnalysis> ranks;
  ranks.push_back(analysed("capacity_forward"));
  ranks.push_back(analysed("other_process"));
  ranks.push_back(analysed("capacity_forward"));
  CHECK(rank_table_text(ranks, style).find("uneven") != std::string::npos);
}

TEST_CASE("sums that cannot be put a scan's figures in doubt") {
  SnapshotAnalysis analysis = analysed("qwen3_moe");
  CHECK(snapshot_findings(analysis).lost.empty());
  analysis.devices[0].summary.faults = {"the segments add up to more than 64 bits hold", "another"};
  const auto found = snapshot_findings(analysis);
  REQUIRE(found.lost.size() == 1);
  CHECK(found.lost[0].what.find("in doubt: the segments add up to more than 64 bits hold, and more of the kind") != std::string::npos);
}

TEST_CASE("the page holds no text that steers its reader, and says which sums cannot be") {
  AllocatorSnapshot snapshot;
  StackFrame frame;
  frame.file = snapshot.stacks.text("train/a\u202eb</script>.py");   // U+202E turns what follows around
  frame.function = snapshot.stacks.text("step\x1b[31m");
  frame.line = 309;
  const std::vector<FrameId> frames = {snapshot.stacks.frame(frame)};
  snapshot.blocks.push_back({std::uint64_t{1} << 40, 1 << 20, 1 << 20, snapshot.stacks.stack(frames), BlockState::allocated});
  SnapshotSegment segment;
  segment.address = std::uint64_t{1} << 40;
  segment.total_size = 2 << 20;   // more than its block
  segment.active_size = 1 << 20;
  segment.blocks = 1;
  snapshot.segments.push_back(segment);
  snapshot.segments_whole = true;
  const std::string page = snapshot_html(analyze_snapshot("run\u202e.pickle", std::move(snapshot)));
  for (const char* never : {"\u202e", "\\u202e", "\x1b", "\\u001b", "b</script>"}) CHECK(page.find(never) == std::string::npos);
  for (const char* wanted : {"run?.pickle", "a?b\\u003c/script>.py:309", "step?[31m", "add up to 1048576 bytes"}) CHECK(page.find(wanted) != std::string::npos);
}

TEST_CASE("what is no snapshot is an error with its place") {
  const auto got = load_snapshot(std::string(TRIAGE_SOURCE_DIR) + "/README.md");
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().message().find("not a pickle") != std::string::npos);
  CHECK_FALSE(load_snapshot("/nowhere/at/all.pickle").ok());
}
