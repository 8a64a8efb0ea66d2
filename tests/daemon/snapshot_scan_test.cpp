// Logs and snapshots of the same runs, given to one scan.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/cli/view.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_file.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"
#include "tests/support/gunzip.hpp"
#include "tests/support/scan.hpp"

using namespace triage;

namespace {

const std::string kRoot = TRIAGE_SOURCE_DIR;

daemon::Answer scanned(const std::vector<std::string>& files) {
  daemon::ScanFilesOptions options;
  options.threads = 2;
  options.default_year = 2026;
  daemon::ScannedFiles found = daemon::scan_files(tests::knowledge(), files, options);
  CHECK(found.errors.empty());
  return daemon::judge_sources(*tests::knowledge(), std::move(found.sources), tests::fixed_now());
}

std::string log_of(const std::string& name) { return kRoot + "/tests/corpus/recorded/" + name + ".log"; }
std::string snapshot_of(const std::string& name) { return kRoot + "/tests/snapshots/" + name + ".pickle.gz"; }

}  // namespace

TEST_CASE("a log and the snapshot of its failure are one incident with measured composition") {
  struct Row { const char* name; const char* kind; const char* most; };
  const std::vector<Row> rows = {
      {"optimizer_first_step", "gpu.oom.capacity", "optimizer"}, {"capacity_forward", "gpu.oom.capacity", "activations"},
      {"logits_spike", "gpu.oom.capacity", "logits"},            {"model_load", "gpu.oom.capacity", "weights"},
      {"fragmentation", "gpu.oom.fragmentation", "fragmentation"}, {"other_process", "gpu.oom.other_process", "activations"},
      {"megatron-oom-dense-forward", "gpu.oom.capacity", "activations"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const daemon::Answer answer = scanned({log_of(row.name), snapshot_of(row.name)});
    REQUIRE(answer.incidents.size() == 1);
    const signatures::Diagnosis& d = answer.incidents[0].diagnosis;
    CHECK(d.kind == row.kind);
    REQUIRE_FALSE(d.composition.empty());
    std::string most;
    parsers::Bytes bytes;
    for (const auto& term : d.composition) {
      CHECK(term.basis == signatures::Basis::measured);
      if (term.bytes > bytes) {
        bytes = term.bytes;
        most = term.term;
      }
    }
    CHECK(most == row.most);
  }
}

TEST_CASE("doubts of a snapshot go into the incident that it joins: a reason, less confidence, and a word in the views") {
  struct Row { const char* name; bool cut, sums; const char* says; };
  for (const Row& row : {Row{"whole", false, false, nullptr}, Row{"cut in its traces", true, false, "it is cut: the snapshot ends before its end mark"},
                         Row{"a segment of another size than its blocks", false, true, "it has sums that cannot be: "}}) {
    CAPTURE(std::string(row.name));
    std::string bytes = tests::gunzip_file(snapshot_of("capacity_forward"));
    if (row.cut) bytes.resize(bytes.size() * 19 / 20);
    auto snapshot = parsers::read_snapshot(bytes, "capacity_forward.pickle");
    REQUIRE(snapshot.ok());
    if (row.sums) snapshot->segments.front().total_size += 1 << 20;
    std::vector<signatures::SourceFindings> sources;
    sources.push_back(tests::take_text(tests::read_file(log_of("capacity_forward")), 0, "capacity_forward.log"));
    sources.push_back(daemon::snapshot_findings(daemon::analyze_snapshot("capacity_forward.pickle", std::move(snapshot).value())));
    const daemon::Answer answer = daemon::judge_sources(*tests::knowledge(), std::move(sources), tests::fixed_now());
    REQUIRE(answer.incidents.size() == 1);
    const signatures::Diagnosis& d = answer.incidents[0].diagnosis;
    CHECK(d.confidence == doctest::Approx(row.says ? 0.86 : 0.96));
    CHECK(std::ranges::count_if(d.reasons, [&](const std::string& reason) { return row.says && reason.find(row.says) != std::string::npos; }) == (row.says ? 1 : 0));
    REQUIRE_FALSE(d.composition.empty());
    CHECK(d.composition.front().in_doubt == (row.says != nullptr));
    CHECK((daemon::answer_text(answer, {}).find("(MEASURED, in doubt)") != std::string::npos) == (row.says != nullptr));
    CHECK(daemon::answer_json(answer, "")["incidents"][0]["composition"][0]["in_doubt"] == (row.says != nullptr));
  }
}

TEST_CASE("each of many logs gets its own snapshot") {
  const std::vector<std::string> names = {"capacity_forward", "capacity_forward-with-checkpointing", "logits_spike", "model_load", "optimizer_first_step", "qwen3_moe"};
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back(log_of(name));
  for (auto name = names.rbegin(); name != names.rend(); ++name) files.push_back(snapshot_of(*name));
  files.push_back(snapshot_of("ok_train"));
  const daemon::Answer answer = scanned(files);
  CHECK(answer.incidents.size() == names.size());
  for (const auto& incident : answer.incidents) CHECK_FALSE(incident.diagnosis.composition.empty());
  const auto& held = answer.incidents[0].diagnosis;   // capacity_forward: 8.46 GiB of weights, no logits yet
  for (const auto& term : held.composition) CHECK(term.term != "logits");
}

TEST_CASE("a snapshot alone that holds a failure is an incident") {
  struct Row { const char* name; const char* kind; signatures::Phase phase; };
  const std::vector<Row> rows = {{"fragmentation", "gpu.oom.fragmentation", signatures::Phase::unknown},
                                 {"capacity_forward", "gpu.oom.capacity", signatures::Phase::forward},
                                 {"logits_spike", "gpu.oom.capacity", signatures::Phase::loss}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const daemon::Answer answer = scanned({snapshot_of(row.name)});
    REQUIRE(answer.incidents.size() == 1);
    const signatures::Diagnosis& d = answer.incidents[0].diagnosis;
    CHECK(d.kind == row.kind);
    CHECK(d.phase == row.phase);
    CHECK_FALSE(d.composition.empty());
    CHECK_FALSE(d.root.frames.empty());
    REQUIRE(d.ledger.has_value());
    CHECK(d.ledger->tried.has_value());
    CHECK_FALSE(answer.incidents[0].plan.fixes.empty());
  }
}

TEST_CASE("a healthy snapshot is no incident, and a snapshot of another failure changes nothing") {
  CHECK(scanned({snapshot_of("ok_train")}).incidents.empty());
  const daemon::Answer answer = scanned({log_of("logits_spike"), snapshot_of("capacity_forward")});
  CHECK(answer.incidents.size() == 2);
  for (const auto& incident : answer.incidents)
    if (incident.diagnosis.root.source == log_of("logits_spike")) CHECK(incident.diagnosis.composition.empty());
}

namespace {

std::shared_ptr<signatures::SnapshotFacts> healthy(const std::string& name, double peak_gib, double now_gib) {
  auto facts = std::make_shared<signatures::SnapshotFacts>();
  facts->source.name = name;
  facts->events = 1000;
  const auto moment = [](const char* when, double gib, const char* term) {
    const parsers::Bytes bytes(static_cast<std::int64_t>(gib * (1 << 30)));
    return signatures::SnapshotFacts::Moment{when, bytes, bytes, {{term, bytes, signatures::Basis::measured, {}}}};
  };
  facts->moments = {moment("at the peak of its trace", peak_gib, "activations"), moment("when it was written", now_gib, "weights")};
  return facts;
}

signatures::Diagnosis failed(const std::string& log, std::optional<int> rank, double allocated_gib) {
  signatures::Diagnosis d;
  d.kind = "gpu.oom.capacity";
  d.root.source = log;
  d.root.rank = rank;
  d.ledger.emplace();
  d.ledger->tried = parsers::gib(2);
  if (allocated_gib > 0) d.ledger->allocated = parsers::Bytes(static_cast<std::int64_t>(allocated_gib * (1 << 30)));
  return d;
}

}  // namespace

TEST_CASE("a snapshot without an out-of-memory event joins the log of its process, by rank, time and what was allocated") {
  using parsers::TimePoint;
  const TimePoint noon{std::chrono::hours(500'000)};
  struct Row { const char* what; const char* file; std::optional<int> rank, of_log; double peak, now, allocated; int minutes; const char* term; };
  const std::vector<Row> rows = {
      {"the state when it was written is that of the failure", "run/snapshots/rank3.pickle", 3, 3, 75, 70, 70.0, 1, "weights"},
      {"its peak is nearest", "run/snapshots/rank3.pickle", 3, 3, 69, 10, 70.0, 1, "activations"},
      {"no rank is known, the times fit", "run/dump.pickle", {}, {}, 69, 10, 70.0, 5, "activations"},
      {"no figures and no rank, times fit", "run/dump.pickle", {}, {}, 69, 10, 0, 5, "activations"},
      {"another rank", "run/rank2.pickle", 2, 3, 70, 70, 70.0, 1, nullptr},
      {"yesterday's", "run/rank3.pickle", 3, 3, 70, 70, 70.0, 60 * 24, nullptr},
      {"much less was allocated", "run/rank3.pickle", 3, 3, 30, 10, 70.0, 1, nullptr},
      {"of another folder", "other/rank3.pickle", 3, 3, 70, 70, 70.0, 1, nullptr},
      {"nothing in common but the folder", "run/dump.pickle", {}, {}, 69, 10, 0, 300, nullptr}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.what));
    auto facts = healthy(row.file, row.peak, row.now);
    facts->source.rank = row.rank;
    facts->time = noon;
    signatures::Diagnosis d = failed("run/train.log", row.of_log, row.allocated);
    d.root.time = noon + std::chrono::minutes(row.minutes);
    std::vector<signatures::Diagnosis*> all = {&d};
    const auto used = signatures::join_snapshots(all, {facts});
    CHECK(used[0] == (row.term != nullptr));
    if (row.term) {
      REQUIRE(d.composition.size() == 1);
      CHECK(d.composition[0].term == row.term);
      CHECK(d.composition[0].basis == signatures::Basis::measured);
      CHECK(d.reasons.back().find("without the failure itself") != std::string::npos);
    }
  }
}

TEST_CASE("of snapshots at intervals the last one before the failure is taken, and one of the failure before all") {
  const parsers::TimePoint noon{std::chrono::hours(500'000)};
  auto early = healthy("run/step10.pickle", 68, 10), late = healthy("run/step20.pickle", 69, 10), failure = healthy("run/oom.pickle", 70, 70);
  early->time = noon - std::chrono::minutes(9);
  late->time = noon - std::chrono::minutes(3);
  signatures::Diagnosis d = failed("run/train.log", {}, 70);
  d.root.time = noon;
  std::vector<signatures::Diagnosis*> all = {&d};
  CHECK(signatures::join_snapshots(all, {late, early}) == std::vector<bool>{true, false});
  failure->failure = signatures::SnapshotFacts::Failure{};
  failure->failure->requested = parsers::gib(2);
  d.composition.clear();
  CHECK(signatures::join_snapshots(all, {late, early, failure}) == std::vector<bool>{false, false, true});
}

TEST_CASE("memory that steps left behind makes a leak of a failure for want of memory") {
  const parsers::TimePoint noon{std::chrono::hours(500'000)};
  auto facts = healthy("run/train.pickle", 70, 70);
  facts->time = noon;
  facts->growth = signatures::SnapshotFacts::Growth{parsers::gib(1), parsers::gib(40), 40, "train.py:9 remember"};
  signatures::Diagnosis d = failed("run/train.log", {}, 70);
  d.root.time = noon;
  std::vector<signatures::Diagnosis*> all = {&d};
  (void)signatures::join_snapshots(all, {facts});
  CHECK(d.kind == "gpu.oom.leak");
  CHECK(d.summary.find("train.py:9 remember") != std::string::npos);
  // A small growth beside much else is told, no more.
  facts->growth->total = parsers::gib(2);
  d = failed("run/train.log", {}, 70);
  d.root.time = noon;
  (void)signatures::join_snapshots(all, {facts});
  CHECK(d.kind == "gpu.oom.capacity");
  CHECK(d.reasons.back().find("1.00 GiB a step") != std::string::npos);
}
