#include <doctest/doctest.h>

#include "db/live_store.hpp"
#include "db/query.hpp"
#include "db/silences.hpp"
#include "db/store.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;

namespace {

struct One {
  const char* id;
  const char* kind;
  const char* job;
  const char* node;
  int rank;
  const char* cause;
  int second;
  char state;   // o open, c closed, k kept by a scan
};

constexpr One kIncidents[] = {
    {"a1", "gpu.oom.capacity", "j1", "n1", 2, "v1:a", 100, 'c'}, {"a2", "gpu.oom.capacity", "j2", "n1", 2, "v1:a", 200, 'c'},
    {"a3", "gpu.oom.fragmentation", "j3", "n2", 5, "v1:b", 300, 'o'}, {"b1", "gpu.xid.79", "j3", "n1", 2, "v1:c", 300, 'o'},
    {"b2", "nccl.timeout", "j4", "", 0, "v1:d", 300, 'k'}, {"b3", "gpu.xid.79", "j5", "n3", 7, "v1:c", 3700, 'c'},
};

struct Filled {
  Filled() {
    auto store = db::LiveStore::open(folder.file("live.db"));
    REQUIRE(store.ok());
    for (const One& one : kIncidents) {
      IncidentBatch made(one.id, one.second, one.state == 'c', std::string("{\"id\":\"") + one.id + "\"}");
      made.diagnosis.kind = one.kind;
      made.diagnosis.job = one.job;
      made.diagnosis.root.node = one.node;
      made.diagnosis.root.rank = one.rank;
      made.diagnosis.fingerprint = one.cause;
      if (one.state == 'k') made.batch.tracked.clear();
      REQUIRE(store->commit(made.batch).ok());
    }
  }
  db::Query open() const {
    auto query = db::Query::open(folder.file("live.db"));
    REQUIRE(query.ok());
    return std::move(query).value();
  }
  StoreFolder folder;
};

std::string ids(const std::vector<db::HistoryRow>& rows) {
  std::string out;
  for (const db::HistoryRow& row : rows) out += (out.empty() ? "" : " ") + row.id;
  return out;
}

}  // namespace

TEST_CASE("incidents are found by kind, job, node, rank, cause, time and state, newest first") {
  const Filled filled;
  db::Query query = filled.open();
  struct Row {
    const char* name;
    db::HistoryQuery query;
    const char* want;
  };
  std::vector<Row> rows;
  const auto row = [&](const char* name, const char* want, auto change) {
    db::HistoryQuery one;
    change(one);
    rows.push_back({name, one, want});
  };
  row("all", "b3 a3 b1 b2 a2 a1", [](auto&) {});
  row("beginning of a kind", "a3 a2 a1", [](auto& q) { q.kind = "gpu.oom"; });
  row("whole kind", "a2 a1", [](auto& q) { q.kind = "gpu.oom.capacity"; });
  row("half a part", "", [](auto& q) { q.kind = "gpu.oo"; });
  row("job", "a3 b1", [](auto& q) { q.job = "j3"; });
  row("node", "b1 a2 a1", [](auto& q) { q.node = "n1"; });
  row("rank", "b1 a2 a1", [](auto& q) { q.rank = 2; });
  row("cause", "b3 b1", [](auto& q) { q.fingerprint = "v1:c"; });
  row("since", "b3", [](auto& q) { q.since = at(301); });
  row("until", "a2 a1", [](auto& q) { q.until = at(300); });
  row("open", "a3 b1", [](auto& q) { q.open = true; });
  row("closed", "b3 b2 a2 a1", [](auto& q) { q.open = false; });
  row("all at once", "b1", [](auto& q) {
    q.kind = "gpu";
    q.job = "j3";
    q.node = "n1";
    q.open = true;
    q.since = at(1);
    q.until = at(301);
  });
  row("no rows", "", [](auto& q) { q.limit = 0; });
  for (const Row& one : rows) {
    CAPTURE(std::string(one.name));
    const auto page = query.incidents(one.query);
    REQUIRE(page.ok());
    CHECK(ids(page->rows) == one.want);
    CHECK(page->next.empty());
  }
}

TEST_CASE("pages follow each other without a gap or a double, also where times are equal and while new ones come") {
  const Filled filled;
  db::Query query = filled.open();
  for (const int size : {1, 2, 3, 5, 6, 7}) {
    CAPTURE(size);
    db::HistoryQuery wanted;
    wanted.limit = size;
    std::string all;
    for (int pages = 0; pages < 10; ++pages) {
      const auto page = query.incidents(wanted);
      REQUIRE(page.ok());
      CHECK(static_cast<int>(page->rows.size()) <= size);
      all += (all.empty() ? "" : " ") + ids(page->rows);
      if (page->next.empty()) break;
      wanted.cursor = page->next;
      if (pages == 0 && size == 2) {
        auto store = db::LiveStore::open(filled.folder.file("live.db"));
        IncidentBatch late("zz", 9000);
        REQUIRE(store->commit(late.batch).ok());
      }
    }
    CHECK(all == (size > 2 ? "zz b3 a3 b1 b2 a2 a1" : "b3 a3 b1 b2 a2 a1"));
  }
  for (const char* cursor : {"x", "1", "1.", ".a", "99999999999999999999.a"}) {
    db::HistoryQuery wanted;
    wanted.cursor = cursor;
    const auto page = query.incidents(wanted);
    REQUIRE_FALSE(page.ok());
    CHECK(page.error().code() == parsers::ErrorCode::syntax);
  }
}

TEST_CASE("a text in a filter is a value, never a part of the question") {
  const Filled filled;
  db::Query query = filled.open();
  for (const char* text : {"' OR 1=1 --", "%", "*", "gpu' --"}) {
    db::HistoryQuery wanted;
    wanted.kind = wanted.job = wanted.node = text;
    const auto page = query.incidents(wanted);
    REQUIRE(page.ok());
    CHECK(page->rows.empty());
    db::SourceQuery sources;
    sources.name = text;
    CHECK(query.sources(sources).ok());
    CHECK_FALSE(query.find(text).ok());
  }
}

TEST_CASE("the state of an incident is told, and its findings") {
  const Filled filled;
  db::Query query = filled.open();
  CHECK(query.find("a1")->row.state == db::IncidentState::closed);
  CHECK(query.find("a3")->row.state == db::IncidentState::open);
  CHECK(query.find("b2")->row.state == db::IncidentState::kept);
  CHECK(query.find("a3")->row.opened_at == at(300));
  CHECK_FALSE(query.find("b2")->row.opened_at);
  CHECK(query.find("a1")->answer == "{\"id\":\"a1\"}");
  const auto findings = query.findings("a1");
  REQUIRE(findings.ok());
  REQUIRE(findings->size() == 1);
  CHECK(findings->front().rule == "torch.cuda.oom");
  CHECK(findings->front().line == 12);
  CHECK_FALSE(findings->front().rank);
  CHECK(query.findings("nothing")->empty());
}

TEST_CASE("counts over time by kind") {
  const Filled filled;
  db::Query query = filled.open();
  const auto counts = query.counts({}, std::chrono::hours(1));
  REQUIRE(counts.ok());
  std::string text;
  for (const db::KindCount& one : *counts)
    text += std::to_string(one.begin.time_since_epoch().count() / 1'000'000) + " " + one.kind + " " + std::to_string(one.incidents) + "\n";
  CHECK(text ==
        "0 gpu.oom.capacity 2\n0 gpu.oom.fragmentation 1\n0 gpu.xid.79 1\n0 nccl.timeout 1\n3600 gpu.xid.79 1\n");
  db::HistoryQuery one_kind;
  one_kind.kind = "gpu.xid";
  CHECK(query.counts(one_kind, std::chrono::hours(1))->size() == 2);
  CHECK_FALSE(query.counts({}, std::chrono::seconds(0)).ok());
}

TEST_CASE("nodes, ranks and causes that recur") {
  const Filled filled;
  db::Query query = filled.open();
  const auto nodes = query.recurring(db::Shared::node, {});
  REQUIRE(nodes.ok());
  REQUIRE(nodes->size() == 1);
  CHECK(nodes->front().value == "n1");
  CHECK(nodes->front().incidents == 3);
  CHECK(nodes->front().jobs == 3);
  CHECK(nodes->front().causes == 2);
  CHECK(nodes->front().kind == "gpu.xid.79");
  CHECK(nodes->front().first_at == at(100));
  CHECK(nodes->front().last_at == at(300));
  const auto ranks = query.recurring(db::Shared::rank, {}, 1);
  REQUIRE(ranks.ok());
  REQUIRE(ranks->size() == 4);
  CHECK(ranks->front().value == "2");
  db::HistoryQuery early;
  early.until = at(300);
  const auto causes = query.recurring(db::Shared::fingerprint, early);
  REQUIRE(causes.ok());
  REQUIRE(causes->size() == 1);
  CHECK(causes->front().value == "v1:a");
  CHECK(query.recurring(db::Shared::kind, {}, 1)->size() == 4);
  CHECK(query.recurring(db::Shared::job, {})->front().value == "j3");
}

TEST_CASE("sources with what is not read yet, in pages") {
  const Filled filled;
  {
    auto store = db::LiveStore::open(filled.folder.file("live.db"));
    REQUIRE(store.ok());
    db::LiveBatch batch = batch_at(1);
    for (int i = 0; i < 5; ++i) {
      batch.sources.push_back(source_of("/logs/rank" + std::to_string(i) + ".log", 100));
      batch.sources.back().row.size = 100 + static_cast<std::uint64_t>(i);
      batch.sources.back().row.ended = i == 4;
    }
    REQUIRE(store->commit(batch).ok());
  }
  db::Query query = filled.open();
  db::SourceQuery wanted;
  wanted.limit = 3;
  auto page = query.sources(wanted);
  REQUIRE(page.ok());
  REQUIRE(page->rows.size() == 3);
  CHECK(page->rows[2].size - page->rows[2].offset == 2);
  wanted.after = page->next;
  page = query.sources(wanted);
  REQUIRE(page.ok());
  CHECK(page->rows.size() == 1);
  CHECK(page->next == 0);
  db::SourceQuery all;
  all.ended_too = true;
  CHECK(query.sources(all)->rows.size() == 5);
  all.name = "rank3";
  CHECK(query.sources(all)->rows.size() == 1);
  all.job = "other";
  CHECK(query.sources(all)->rows.empty());
  const auto totals = query.totals();
  REQUIRE(totals.ok());
  CHECK(totals->incidents == 6);
  CHECK(totals->open == 2);
  CHECK(totals->sources == 4);
  CHECK(totals->lag_bytes == 0 + 1 + 2 + 3);
  CHECK(totals->bytes > 0);
}

TEST_CASE("silences as the API lists them") {
  const Filled filled;
  auto store = db::Silences::open(filled.folder.file("live.db"));
  REQUIRE(store.ok());
  for (const int end : {200, 300}) {
    db::Silence one;
    one.kind = "gpu";
    one.starts_at = at(100);
    one.ends_at = at(end);
    REQUIRE(store->add(one, at(1)).ok());
  }
  db::Query query = filled.open();
  CHECK(query.silences(at(250), false)->size() == 1);
  CHECK(query.silences(at(250), true)->size() == 2);
}
