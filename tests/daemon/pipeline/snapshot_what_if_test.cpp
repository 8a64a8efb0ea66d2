#include "daemon/pipeline/snapshot_what_if.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "daemon/cli/what_if.hpp"
#include "daemon/http/snapshot_json.hpp"
#include "daemon/http/what_if_json.hpp"
#include "signatures/memory/replay_recording.hpp"

using namespace triage::daemon;
using namespace triage::signatures;
using triage::parsers::Bytes;
using triage::parsers::TraceAction;
using triage::parsers::TraceEvent;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

triage::parsers::AllocatorSnapshot loaded(const std::string& name) {
  auto snapshot = load_snapshot(std::string(TRIAGE_SOURCE_DIR) + "/tests/snapshots/" + name + ".pickle.gz");
  REQUIRE(snapshot.ok());
  return std::move(snapshot).value();
}

ReplayTrace trace_of(const std::string& name) {
  auto trace = replay_trace(loaded(name), 0);
  REQUIRE(trace);
  return std::move(*trace);
}

AllocConf conf(const std::string& text) {
  auto read = read_alloc_conf(text);
  REQUIRE(read.ok());
  return *read;
}

double percent(std::int64_t value, std::int64_t truth) {
  return truth ? 100.0 * static_cast<double>(value - truth) / static_cast<double>(truth) : value ? 100.0 : 0.0;
}

// The events of a recording from `first` on, with its state at the end: as if the recorder's buffer had been shorter.
triage::parsers::AllocatorSnapshot cut_at(triage::parsers::AllocatorSnapshot snapshot, std::size_t first) {
  triage::parsers::AllocatorTrace kept;
  TraceEvent event;
  std::size_t at = 0;
  for (auto cursor = snapshot.traces.at(0).events.events(); cursor.next(event); ++at)
    if (at >= first) kept.append(event);
  kept.finish();
  snapshot.traces[0].events = std::move(kept);
  return snapshot;
}

}  // namespace

// What PyTorch 2.11 did on an H200 with the same sequence of requests under eight settings. The cards had other work on them:
// llama-varlen/split512 was short of memory for a moment and gave two oversize blocks back, which the replay cannot know.
TEST_CASE("the replay under other settings gives what PyTorch's allocator gave") {
  std::ifstream truth(std::string(TRIAGE_SOURCE_DIR) + "/tests/snapshots/replay/replay.jsonl");
  int rows = 0;
  for (std::string line; std::getline(truth, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    const std::string workload = row["workload"], setting = row["setting"], text = row["conf"];
    CAPTURE(workload);
    CAPTURE(setting);
    AllocConf settings = conf(text);
    if (row["fraction"].get<double>() < 1) settings.per_process_memory_fraction = row["fraction"].get<double>();
    ReplayLimits limits;
    limits.total_memory = Bytes(row["total_memory"].get<std::int64_t>());
    const ReplayResult result = replay(trace_of("replay/" + workload + ".snapshot"), settings, limits);
    const bool shared = workload == "llama-varlen" && setting == "split512";
    CHECK(std::abs(percent(result.reserved_peak.count(), row["reserved_bytes.all.peak"])) <= (shared ? 1.5 : 0.01));
    CHECK(std::abs(percent(result.allocated_peak.count(), row["allocated_bytes.all.peak"])) <= 0.01);
    CHECK(std::abs(percent(result.active_peak.count(), row["active_bytes.all.peak"])) <= 0.01);
    CHECK(std::abs(percent(result.inactive_split_peak.count(), row["inactive_split_bytes.all.peak"])) <= 0.01);
    CHECK(result.segments_allocated == row["segment.all.allocated"]);
    if (!shared) CHECK(result.segments_freed == row["segment.all.freed"]);
    CHECK(result.retries == row["num_alloc_retries"]);
    CHECK(result.ooms == row["num_ooms"]);
    CHECK(result.would_oom == !row["oom"].is_null());
  }
  CHECK(rows >= 31);
}

TEST_CASE("the replay under the recorded settings gives the recorded run") {
  for (const char* name : {"capacity_forward", "capacity_forward-with-checkpointing", "fragmentation", "logits_spike",
                           "megatron-oom-dense-forward", "megatron-oom-dense-nodistopt", "model_load", "ok_train",
                           "optimizer_first_step", "other_process", "qwen3_moe", "lab_graphs", "lab_leak_logits", "lab_leak_graph",
                           "lab_expandable", "lab_fsdp2"}) {
    const std::string file = name;
    CAPTURE(file);
    const ReplayTrace trace = trace_of(file);
    const ReplayCheck check = check_replay(trace);
    CHECK(trace.skipped == 0);
    CHECK(std::abs(check.reserved_error_percent) <= 0.01);
    CHECK(check.segments_recorded == check.segments_replayed);
    CHECK(check.result.segments_freed == trace.recorded.segments_freed);
    CHECK(check.result.reserved_end.count() == trace.recorded.end_reserved);
    CHECK(check.same_ooms);
    CHECK_FALSE(check.result.stopped);
  }
}

// What torch.cuda.memory_stats() said at the end of these runs (PyTorch 2.11, one H200), and that no run without graphs has private pools.
TEST_CASE("the replay of runs with CUDA graphs, expandable segments, FSDP2 and a leak gives what memory_stats() gave") {
  struct Row {
    const char* name;
    std::int64_t reserved_peak, reserved_end, allocated_peak, allocated_end;
    int pools;
  };
  for (const Row& row : {Row{"lab_graphs", 121634816, 121634816, 95962112, 95437824, 4}, Row{"lab_expandable", 442499072, 232783872, 337657856, 207634432, 1},
                         Row{"lab_fsdp2", 234881024, 234881024, 197255680, 93347840, 1}, Row{"lab_leak_logits", 257949696, 257949696, 238109184, 168837120, 1},
                         Row{"lab_leak_graph", 174063616, 174063616, 156340224, 84971520, 1}}) {
    CAPTURE(std::string(row.name));
    const ReplayTrace trace = trace_of(row.name);
    const ReplayResult result = check_replay(trace).result;
    CHECK(result.reserved_peak.count() == row.reserved_peak);
    CHECK(result.reserved_end.count() == row.reserved_end);
    CHECK(result.allocated_peak.count() == row.allocated_peak);
    CHECK(result.allocated_end.count() == row.allocated_end);
    CHECK(trace.pools == row.pools);
  }
  for (const char* name : {"fragmentation", "model_load", "optimizer_first_step", "megatron-oom-dense-nodistopt", "qwen3_moe", "replay/llama-varlen.snapshot",
                           "replay/growing.snapshot", "replay/synthetic-small.snapshot", "replay/synthetic-large.snapshot"}) {
    CAPTURE(std::string(name));
    CHECK(trace_of(name).pools == 1);
  }
}

TEST_CASE("a recording that begins late is replayed from the state that it implies") {
  for (const char* name : {"capacity_forward", "megatron-oom-dense-forward", "ok_train", "optimizer_first_step", "replay/synthetic-large.snapshot"}) {
    const std::string file = name;
    CAPTURE(file);
    const ReplayTrace whole = trace_of(file);
    const auto snapshot = loaded(file);
    const std::size_t events = snapshot.traces.at(0).events.size();
    for (const std::size_t first : {events / 7, events / 2, events - events / 5}) {
      CAPTURE(first);
      const auto cut = replay_trace(cut_at(loaded(file), first), 0);
      REQUIRE(cut);
      CHECK_FALSE(cut->complete);
      CHECK(cut->skipped == 0);
      CHECK(cut->recorded.end_reserved == whole.recorded.end_reserved);
      const ReplayCheck check = check_replay(*cut);
      CHECK(std::abs(check.reserved_error_percent) <= 1.0);
      CHECK(std::abs(percent(check.result.reserved_end.count(), whole.recorded.end_reserved)) <= 1.0);
      CHECK(check.same_ooms);
    }
  }
}

TEST_CASE("what-if names the setting that rescues a fragmented run, and the advice that would harm") {
  WhatIfRequest request;
  request.usual = true;
  const ReplayTrace fragmented = trace_of("fragmentation");
  const WhatIfs rescue = what_if(fragmented, usual_settings(fragmented));
  CHECK(rescue.ranked.front().settings == "expandable_segments:True");
  CHECK(rescue.ranked.front().effect == WhatIfEffect::rescues);
  const ReplayTrace varlen = trace_of("replay/llama-varlen.snapshot");
  const WhatIfs harm = what_if(varlen, usual_settings(varlen));
  CHECK(harm.ranked.front().settings == "expandable_segments:True");
  CHECK(harm.ranked.front().effect == WhatIfEffect::lower);
  for (const WhatIf& what : harm.ranked)
    if (what.settings == "max_split_size_mb:128") {
      CHECK(makes_worse(what.effect));
      CHECK(what.result.reserved_peak.gib() > 120);
      CHECK(what.note.find("would be worse: ") == 0);
    }
}

TEST_CASE("the JSON of a what-if has the check and one entry a setting") {
  auto request = read_what_if({"expandable_segments=true", "memory_limit=20GiB", "max_split_size_mb:128"}, "", "");
  REQUIRE(request.ok());
  const SnapshotAnalysis analysis = analyze_snapshot("x.pickle", loaded("fragmentation"));
  Json answer = snapshot_json(analysis);
  add_what_if(answer, analysis, what_ifs_of(analysis, *request), true);
  const Json& device = answer["devices"][0];
  CHECK(device["replay_check"]["reserved_error_percent"] == 0.0);
  REQUIRE(device["what_if"].size() == 3);
  CHECK(device["what_if"][0]["settings"] == "expandable_segments:True");
  CHECK(device["what_if"][0]["would_oom"] == false);
  CHECK(device["what_if"][1]["settings"] == "memory_limit:21474836480");
  CHECK(device["what_if"][1]["would_oom"] == true);
  CHECK(device["what_if"][1]["worse"] == true);
  CHECK(device["what_if"][2]["settings"] == "max_split_size_mb:128");
  CHECK(device["what_if"][1]["reserved_peak_bytes"].get<std::int64_t>() <= std::int64_t{20} << 30);
  CHECK_FALSE(read_what_if({"expandable=true"}, "", "").ok());
  CHECK_FALSE(read_what_if({"all"}, "much", "").ok());
}

TEST_CASE("a request that failed and was caught does not end the replay, nor stay allocated when it would have succeeded") {
  ReplayTraceBuilder builder(conf(""), true, nullptr);
  const auto event = [&](TraceAction action, std::uint64_t address, std::int64_t bytes) {
    TraceEvent e;
    e.action = action;
    e.address = address;
    e.size = bytes;
    builder.event(e);
  };
  const std::uint64_t a = std::uint64_t{1} << 40, b = a - (std::uint64_t{1} << 30);
  event(TraceAction::segment_alloc, a, 600 * kMiB);
  event(TraceAction::alloc, a, 600 * kMiB);
  event(TraceAction::oom, static_cast<std::uint64_t>(400 * kMiB), 500 * kMiB);    // 400 MiB are free
  event(TraceAction::segment_alloc, b, 300 * kMiB);
  event(TraceAction::alloc, b, 300 * kMiB);
  const ReplayTrace trace = builder.finish();
  REQUIRE(trace.capacity);
  CHECK(trace.capacity->count() == 1000 * kMiB);
  const ReplayCheck check = check_replay(trace);
  CHECK(check.same_ooms);
  CHECK_FALSE(check.result.stopped);
  CHECK(check.result.allocated_end.count() == 900 * kMiB);
  ReplayLimits more;
  more.capacity = Bytes(2000 * kMiB);
  const ReplayResult larger = replay(trace, conf(""), more);
  CHECK_FALSE(larger.would_oom);
  CHECK(larger.reserved_peak.count() == 1100 * kMiB);    // the failed request first, then its segment serves the smaller one
  CHECK(larger.allocated_end.count() == 900 * kMiB);
}

TEST_CASE("empty_cache() is told from a release that made room") {
  // The allocator frees a segment of 600 MiB, then makes one of 700 MiB. Stacks: of the free, and of what follows.
  const auto run = [](std::uint32_t freed, std::uint32_t next) {
    ReplayTraceBuilder builder(conf(""), true, nullptr);
    const auto event = [&](TraceAction action, std::uint64_t address, std::int64_t bytes, std::uint32_t stack) {
      TraceEvent e;
      e.action = action;
      e.address = address;
      e.size = bytes;
      e.stack = stack;
      builder.event(e);
    };
    const std::uint64_t a = std::uint64_t{1} << 40, b = a - (std::uint64_t{1} << 30);
    event(TraceAction::segment_alloc, a, 600 * kMiB, 1);
    event(TraceAction::alloc, a, 600 * kMiB, 1);
    event(TraceAction::free_requested, a, 600 * kMiB, 2);
    event(TraceAction::free_completed, a, 600 * kMiB, 2);
    event(TraceAction::segment_free, a, 600 * kMiB, freed);
    event(TraceAction::segment_alloc, b, 700 * kMiB, next);
    event(TraceAction::alloc, b, 700 * kMiB, next);
    return builder.finish();
  };
  const struct {
    std::uint32_t freed, next;
    bool by_hand;
  } rows[] = {{3, 4, true}, {0, 0, true}, {4, 4, false}};
  for (const auto& row : rows) {
    CAPTURE(row.freed);
    const ReplayTrace trace = run(row.freed, row.next);
    CHECK(trace.requests.size() == (row.by_hand ? 4 : 3));
    CHECK((trace.requests.at(2).kind == AllocatorRequest::Kind::empty_cache) == row.by_hand);
    CHECK(trace.capacity.has_value() != row.by_hand);
    const ReplayCheck check = check_replay(trace);
    CHECK(check.reserved_error_percent == 0);
    CHECK(check.result.retries == (row.by_hand ? 0 : 1));
    CHECK(check.result.segments_freed == 1);
  }
}

TEST_CASE("events that contradict each other do no harm") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    triage::parsers::AllocatorSnapshot snapshot;
    snapshot.traces_whole = snapshot.segments_whole = true;
    triage::parsers::DeviceTrace traced;
    const auto address = [&] { return random() % 64 == 0 ? random() : (random() % 32) << (random() % 40); };
    const auto bytes = [&]() -> std::int64_t {
      switch (random() % 24) {
        case 0: return std::numeric_limits<std::int64_t>::max();
        case 1: return -1 - static_cast<std::int64_t>(random() >> 1);
        case 2: return 0;
        case 3: return std::int64_t{1} << 42;
        default: return static_cast<std::int64_t>(random() % (1ULL << (random() % 36 + 1)));
      }
    };
    for (int i = 0; i < 400; ++i) {
      TraceEvent event;
      event.action = static_cast<TraceAction>(random() % 10);
      event.address = address();
      event.size = bytes();
      event.stream = random() % 3;
      event.pool = {static_cast<std::int64_t>(random() % 8 == 0), 0};
      traced.events.append(event);
    }
    traced.events.finish();
    snapshot.traces.push_back(std::move(traced));
    for (int i = 0; i < 20; ++i) {
      triage::parsers::SnapshotSegment segment;
      segment.address = address();
      segment.total_size = bytes();
      segment.expandable = random() % 3 == 0;
      segment.large = random() % 2 == 0;
      segment.first_block = static_cast<std::uint32_t>(snapshot.blocks.size());
      segment.blocks = static_cast<std::uint32_t>(random() % 5);
      for (std::uint32_t b = 0; b < segment.blocks; ++b) {
        triage::parsers::SnapshotBlock block;
        block.size = bytes();
        block.requested_size = bytes();
        block.state = static_cast<triage::parsers::BlockState>(random() % 3);
        snapshot.blocks.push_back(block);
      }
      snapshot.segments.push_back(segment);
    }
    const auto trace = replay_trace(snapshot, 0);
    REQUIRE(trace);
    const WhatIfs answer = what_if(*trace, usual_settings(*trace));
    CHECK(answer.ranked.size() >= 5);
    for (const WhatIf& what : answer.ranked) {
      CHECK(what.result.allocated_end.count() >= 0);
      CHECK(what.result.reserved_peak >= what.result.allocated_peak);
    }
  }
}
