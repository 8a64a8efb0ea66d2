// A service behind the API that holds what the test gives it.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/http/service_view.hpp"
#include "tests/support/scan.hpp"

namespace triage::tests {

namespace api = daemon::api;

class FakeService final : public api::ServiceView, public daemon::PushSink {
 public:
  api::TimePoint now() override { return fixed_now(); }
  std::shared_ptr<const daemon::Knowledge> knowledge() override { return tests::knowledge(); }
  daemon::EventHub& events() override { return hub; }

  parsers::Result<api::IncidentPage> incidents(const api::IncidentQuery& query) override {
    const std::lock_guard lock(mutex);
    last_query = query;
    if (broken) return parsers::Error(parsers::ErrorCode::unavailable, "the database is locked");
    api::IncidentPage page;
    for (const api::IncidentRow& row : rows) {   // newest first
      if (!query.filter.kind.empty() && row.kind != query.filter.kind && !row.kind.starts_with(query.filter.kind + ".")) continue;
      if (query.filter.open && row.open != *query.filter.open) continue;
      if (query.after && !(row.opened_at < query.after->opened_at || (row.opened_at == query.after->opened_at && row.id < query.after->id))) continue;
      if (page.rows.size() >= query.limit) {
        page.more = true;
        break;
      }
      page.rows.push_back(row);
    }
    return page;
  }
  parsers::Result<api::IncidentDetail> incident(const std::string& id) override {
    for (const api::IncidentRow& row : rows)
      if (row.id == id) return api::IncidentDetail{row, answer, {{"recompute.full", true, "it ran", now()}}, {{"recompute.full", 7, 9}}};
    return parsers::Error(parsers::ErrorCode::not_found, "there is no incident " + id);
  }
  parsers::Result<api::Context> context(const api::ContextQuery& query) override {
    if (query.source != "train.log" && query.incident.empty()) return parsers::Error(parsers::ErrorCode::not_found, "this source is not known");
    return api::Context{"train.log", 100, false, {{7, 60, "<script>alert(1)</script>", false}, {0, 90, "x", true}}};
  }
  parsers::Result<std::vector<api::CountBucket>> counts(const api::CountQuery& query) override {
    const std::lock_guard lock(mutex);
    last_counts = query;
    return std::vector<api::CountBucket>{{*query.filter.since, "gpu.oom", 3}};
  }
  parsers::Result<std::vector<api::RecurringNode>> recurring(const api::IncidentFilter&, std::size_t) override {
    return std::vector<api::RecurringNode>{{"gpu-17", 3, 5, 4, {{"gpu.xid.79", 5}}, now(), now(), "abcd"}};
  }
  parsers::Result<api::SourcePage> sources(const api::SourceQuery& query) override {
    api::SourcePage page;
    page.total = 2;
    page.lag_bytes = 10;
    page.more = query.after.empty();
    api::SourceRow row;
    row.name = query.after.empty() ? "/logs/a" : "/logs/b";
    row.type = "file";
    row.state = query.after.empty() ? "idle" : "failed";
    row.why = query.after.empty() ? "" : "permission denied";
    row.size = 100;
    row.offset = 90;
    page.rows.push_back(row);
    return page;
  }
  parsers::Status say(const std::string& incident, const api::SaidFeedback& feedback) override {
    const std::lock_guard lock(mutex);
    said.emplace_back(incident, feedback);
    return parsers::done();
  }
  parsers::Result<std::vector<api::SilenceRow>> silences(bool) override {
    const std::lock_guard lock(mutex);
    return silent;
  }
  parsers::Result<api::SilenceRow> add_silence(const api::SilenceRow& silence) override {
    const std::lock_guard lock(mutex);
    silent.push_back(silence);
    silent.back().id = "s" + std::to_string(silent.size());
    silent.back().active = true;
    return silent.back();
  }
  parsers::Status end_silence(const std::string& id) override {
    const std::lock_guard lock(mutex);
    if (std::erase_if(silent, [&](const auto& row) { return row.id == id; }) == 0) return parsers::Error(parsers::ErrorCode::not_found, "there is no such silence");
    return parsers::done();
  }
  parsers::Result<std::vector<api::OutboxCount>> outbox_counts() override { return std::vector<api::OutboxCount>{{"slack", "dead", 2, now()}}; }
  parsers::Result<std::vector<api::OutboxRow>> outbox(const api::OutboxQuery&) override {
    return std::vector<api::OutboxRow>{{7, "slack", "#ops", "abcd", "opened", "dead", "404", 3, now()}};
  }
  parsers::Status outbox_retry(std::int64_t id) override {
    if (id != 7) return parsers::Error(parsers::ErrorCode::not_found, "there is no such item");
    return parsers::done();
  }
  parsers::Result<std::string> upload(const api::Upload& upload) override {
    const std::lock_guard lock(mutex);
    last_upload = upload;
    std::ifstream file(upload.path, std::ios::binary);
    uploaded.assign(std::istreambuf_iterator<char>(file), {});
    if (broken) return parsers::Error(parsers::ErrorCode::internal, "cannot read " + upload.path);
    return std::string("{\"incidents\": []}");
  }
  api::Health health() override { return {true, ready, "0.1.0", now(), {{"database", ready, ready ? "" : "locked by another process"}}}; }

  daemon::PushAnswer offer(std::vector<daemon::PushedStream>&& streams, std::uint64_t hash) override {
    const std::lock_guard lock(mutex);
    if (push_answer.what == daemon::PushAnswer::What::accepted) {
      for (auto& stream : streams) pushed_lines += stream.lines.size();
      pushed = std::move(streams);
      last_hash = hash;
    }
    return push_answer;
  }

  daemon::EventHub hub{"test"};
  std::mutex mutex;
  bool broken = false, ready = true;
  std::vector<api::IncidentRow> rows;
  std::string answer = R"({"id": "abcd", "config": {"micro_batch_size": {"value": 4}}, "findings": [{"rule": "a", "role": "root", "rank": 2}, {"rule": "b", "role": "cascade", "rank": 1}]})";
  api::IncidentQuery last_query;
  api::CountQuery last_counts;
  std::vector<std::pair<std::string, api::SaidFeedback>> said;
  std::vector<api::SilenceRow> silent;
  api::Upload last_upload;
  std::string uploaded;
  daemon::PushAnswer push_answer;
  std::vector<daemon::PushedStream> pushed;
  std::uint64_t last_hash = 0, pushed_lines = 0;

  // count incidents, newest first: "id0099" ... "id0000", a second apart.
  void fill(int count) {
    for (int i = count - 1; i >= 0; --i) {
      api::IncidentRow row;
      char id[16];
      std::snprintf(id, sizeof id, "id%04d", i);
      row.id = id;
      row.fingerprint = "f1";
      row.kind = i % 3 == 0 ? "gpu.oom.capacity" : "nccl.timeout";
      row.severity = "critical";
      row.summary = "rank 2 ran out of memory";
      row.source = "/logs/job/rank2.log";
      row.job = "job-" + std::to_string(i % 7);
      row.line = 123;
      row.rank = 2;
      row.open = i % 2 == 0;
      row.confidence = 0.97;
      row.opened_at = row.changed_at = fixed_now() + std::chrono::seconds(i);
      rows.push_back(row);
    }
  }
};

}  // namespace triage::tests
