// Logs and snapshots of the same runs, given to one scan.
#include <doctest/doctest.h>

#include <string>
#include <vector>

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
  return daemon::judge_sources(*tests::knowledge(), std::move(found.sources), tests::fixed_now(), found.snapshots);
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
