// Values for tests of the store: a folder of its own, diagnoses, batches.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "db/live_rows.hpp"

namespace triage::tests {

struct StoreFolder {
  StoreFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "triage-store-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~StoreFolder() {
    std::error_code code;
    std::filesystem::remove_all(path, code);
  }
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;
  std::string file(const char* name) const { return path + "/" + name; }
  std::string path;
};

inline parsers::TimePoint at(std::int64_t second) { return parsers::TimePoint(std::chrono::seconds(second)); }

inline signatures::Diagnosis diagnosis_of(const std::string& id) {
  signatures::Diagnosis d;
  d.id = id;
  d.fingerprint = "v1:0123";
  d.kind = "gpu.oom.capacity";
  d.summary = "rank 2 ran out of memory";
  d.confidence = 0.9;
  d.root.source = "train.log";
  d.root.line = 12;
  d.root.rank = 2;
  signatures::Finding finding;
  finding.rule = "torch.cuda.oom";
  finding.kind = "gpu.oom";
  finding.line = 12;
  d.findings.push_back(finding);
  return d;
}

inline signatures::Plan plan_of() {
  signatures::Plan out;
  signatures::Fix fix;
  fix.id = "loss.fused";
  fix.title = "fuse the loss";
  out.fixes.push_back(fix);
  return out;
}

inline db::SourceCommit source_of(const std::string& name, std::uint64_t offset) {
  db::SourceCommit out;
  out.row.name = name;
  out.row.job = "job1";
  out.row.offset = offset;
  out.row.size = offset;
  out.row.seen_at = at(1000);
  return out;
}

inline db::TrackedIncident tracked_of(const std::string& id, bool closed, std::int64_t second) {
  db::TrackedIncident out;
  out.id = id;
  out.job = "job1";
  out.closed = closed;
  out.opened_at = at(second);
  out.changed_at = at(second);
  out.revision = 1;
  return out;
}

inline db::OutboxItem alert_of(const std::string& sink, const std::string& incident, const std::string& event, std::uint64_t revision) {
  db::OutboxItem out;
  out.sink = sink;
  out.channel = "#gpu";
  out.incident = incident;
  out.event = event;
  out.revision = revision;
  out.body = "{\"incident\":\"" + incident + "\"}";
  out.not_before = at(1000);
  return out;
}

inline db::LiveBatch batch_at(std::int64_t second) {
  db::LiveBatch out;
  out.rules = {"hash1", "0.1.0"};
  out.now = at(second);
  return out;
}

// A batch with one incident; owns what the batch looks at.
struct IncidentBatch {
  IncidentBatch(const std::string& id, std::int64_t second, bool closed = false, std::string answer = "{}")
      : diagnosis(diagnosis_of(id)), plan(plan_of()), batch(batch_at(second)) {
    diagnosis.job = "job1";
    batch.incidents.push_back({diagnosis, plan, std::move(answer)});
    batch.tracked.push_back(tracked_of(id, closed, second));
  }
  IncidentBatch(const IncidentBatch&) = delete;
  IncidentBatch& operator=(const IncidentBatch&) = delete;
  signatures::Diagnosis diagnosis;
  signatures::Plan plan;
  db::LiveBatch batch;
};

}  // namespace triage::tests
