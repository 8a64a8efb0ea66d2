#include <doctest/doctest.h>

#include "db/live_store.hpp"
#include "db/outbox.hpp"
#include "db/query.hpp"
#include "db/retention.hpp"
#include "db/silences.hpp"
#include "db/store.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;

namespace {

struct Live {
  Live() : store(std::move(db::LiveStore::open(folder.file("live.db"))).value()) {}
  void add(const std::string& id, int second, bool closed, std::size_t bytes = 2) {
    IncidentBatch one(id, second, closed, std::string(bytes, 'x'));
    one.batch.tracked[0].job = one.diagnosis.job;
    REQUIRE(store.commit(one.batch).ok());
  }
  // Until nothing is left to do. Returns the number of slices.
  int sweep(const db::RetentionLimits& limits, std::int64_t second) {
    auto retention = db::Retention::open(folder.file("live.db"));
    REQUIRE(retention.ok());
    for (int slices = 1; slices < 1000; ++slices) {
      const auto slice = retention->slice(limits, at(second));
      REQUIRE(slice.ok());
      last = *slice;
      if (!slice->more) {
        REQUIRE(retention->move_log().ok());
        return slices;
      }
    }
    FAIL("retention never ends");
    return 0;
  }
  std::string left() {
    auto query = db::Query::open(folder.file("live.db"));
    REQUIRE(query.ok());
    std::string out;
    const auto page = query->incidents({});
    REQUIRE(page.ok());
    for (const db::HistoryRow& row : page->rows) out = row.id + (out.empty() ? "" : " ") + out;
    return out;
  }
  std::int64_t count(const std::string& sql) {
    auto connection = db::Connection::open(folder.file("live.db"), db::Connection::Mode::read_only);
    REQUIRE(connection.ok());
    auto rows = connection->prepare(sql);
    REQUIRE(rows.ok());
    REQUIRE(*rows->step());
    return rows->integer(0);
  }
  StoreFolder folder;
  db::LiveStore store;
  db::RetentionSlice last;
};

db::RetentionLimits by_age(int seconds) {
  db::RetentionLimits out;
  out.age = std::chrono::seconds(seconds);
  return out;
}

}  // namespace

TEST_CASE("closed incidents go by age, with all that hangs on them; open ones stay") {
  Live live;
  live.add("old", 100, true);
  live.add("open", 100, false);
  live.add("young", 5000, true);
  live.sweep(by_age(1000), 2000);
  CHECK(live.left() == "open young");
  CHECK(live.last.incidents == 1);
  CHECK(live.count("SELECT count(*) FROM finding") == 2);
  CHECK(live.count("SELECT count(*) FROM fix") == 2);
  CHECK(live.count("SELECT count(*) FROM tracked") == 2);
  CHECK(live.store.check().ok());
}

TEST_CASE("one that closed late counts from then") {
  Live live;
  live.add("long", 100, false);
  IncidentBatch closed("long", 3000, true);
  REQUIRE(live.store.commit(closed.batch).ok());
  live.sweep(by_age(1000), 3500);
  CHECK(live.left() == "long");
  live.sweep(by_age(1000), 4001);
  CHECK(live.left().empty());
}

TEST_CASE("an incident with an alert on its way stays until that is told") {
  Live live;
  IncidentBatch one("inc1", 100, true);
  one.batch.outbox = {alert_of("slack", "inc1", "opened", 1)};
  REQUIRE(live.store.commit(one.batch).ok());
  auto outbox = db::Outbox::open(live.folder.file("live.db"));
  REQUIRE(outbox.ok());
  live.sweep(by_age(10), 5000);
  CHECK(live.left() == "inc1");
  REQUIRE(*outbox->take(one.batch.outbox[0].id, at(5000)));
  live.sweep(by_age(10), 5000);
  CHECK(live.left() == "inc1");
  REQUIRE(outbox->sent(one.batch.outbox[0].id, "r", at(5001)).ok());
  live.sweep(by_age(10), 9000);
  CHECK(live.left().empty());
  CHECK(live.count("SELECT count(*) FROM outbox") == 0);
  CHECK(live.count("SELECT count(*) FROM receipt") == 0);
}

TEST_CASE("by count the oldest closed ones go") {
  Live live;
  for (int i = 0; i < 10; ++i) live.add("inc" + std::to_string(i), 100 + i, i != 2);
  db::RetentionLimits limits;
  limits.incidents = 3;
  live.sweep(limits, 1000);
  CHECK(live.left() == "inc2 inc7 inc8 inc9");
}

TEST_CASE("by size the oldest closed ones go, the file shrinks, and open ones are told as the reason when it stays too large") {
  Live live;
  for (int i = 0; i < 100; ++i) live.add("inc" + std::to_string(1000 + i), 100 + i, i >= 10, 200'000);
  REQUIRE(live.count("PRAGMA page_count") * 4096 > 20'000'000);
  db::RetentionLimits limits;
  limits.bytes = 12'000'000;
  live.sweep(limits, 1000);
  CHECK_FALSE(live.last.short_of_closed);
  const std::int64_t used = (live.count("PRAGMA page_count") - live.count("PRAGMA freelist_count")) * 4096;
  CHECK(used <= 12'000'000);
  CHECK(used > 11'000'000);
  CHECK(std::filesystem::file_size(live.folder.file("live.db")) < 12'000'000 + 5 * 1024 * 1024);   // 4 MiB of free pages are kept
  CHECK(live.count("SELECT count(*) FROM tracked WHERE closed = 0") == 10);
  limits.bytes = 1'000'000;
  live.sweep(limits, 1000);
  CHECK(live.last.short_of_closed);
  CHECK(live.count("SELECT count(*) FROM incident") == 10);
  CHECK(live.store.check().ok());
}

TEST_CASE("where each step takes longer than a slice, each slice still gets something done") {
  Live live;
  for (int i = 0; i < 120; ++i) live.add("inc" + std::to_string(1000 + i), 100 + i, true, 100'000);
  auto now = std::chrono::steady_clock::time_point();
  auto retention = db::Retention::open(live.folder.file("live.db"), [&] { return now += std::chrono::seconds(1); });
  REQUIRE(retention.ok());
  std::int64_t incidents = 0, pages = 0;
  int slices = 0;
  for (bool more = true; more; ++slices) {
    REQUIRE(slices < 300);
    const auto slice = retention->slice(by_age(10), at(9000), std::chrono::milliseconds(10));
    REQUIRE(slice.ok());
    CHECK((slice->incidents > 0 || slice->pages > 0 || !slice->more));
    incidents += slice->incidents;
    pages += slice->pages;
    more = slice->more;
  }
  CHECK(incidents == 120);
  CHECK(pages > 0);
}

TEST_CASE("a slice ends when its time is up and the next goes on") {
  Live live;
  for (int i = 0; i < 40; ++i) live.add("inc" + std::to_string(100 + i), 100 + i, true);
  auto now = std::chrono::steady_clock::time_point();
  auto retention = db::Retention::open(live.folder.file("live.db"), [&] { return now += std::chrono::milliseconds(1); });   // each look takes 1 ms
  REQUIRE(retention.ok());
  std::int64_t deleted = 0;
  int slices = 0;
  for (bool more = true; more; ++slices) {
    REQUIRE(slices < 100);
    const auto slice = retention->slice(by_age(10), at(9000), std::chrono::milliseconds(10));
    REQUIRE(slice.ok());
    CHECK(slice->incidents <= 10);
    deleted += slice->incidents;
    more = slice->more;
  }
  CHECK(deleted == 40);
  CHECK(slices >= 5);
}

TEST_CASE("what was learnt of fixes outlives the incident") {
  Live live;
  live.add("inc1", 100, true);
  auto scans = db::Store::open(live.folder.file("live.db"));
  REQUIRE(scans.ok());
  REQUIRE(scans->say("inc1", {"loss.fused", true, "it ran", at(150)}).ok());
  REQUIRE(scans->say("inc1", {"", true, "the diagnosis was right", at(150)}).ok());
  live.sweep(by_age(10), 5000);
  CHECK(live.left().empty());
  CHECK(live.count("SELECT count(*) FROM feedback") == 0);
  const auto records = live.store.fix_records("v1:0123");
  REQUIRE(records.ok());
  REQUIRE(records->size() == 1);
  CHECK(records->front().helped == 1);
  CHECK(records->front().tried == 1);
}

TEST_CASE("the spool of ended sources goes with the last incident of its attempt; checkpoints and live sources stay") {
  Live live;
  db::LiveBatch batch = batch_at(1);
  for (const char* name : {"ended.log", "live.log", "other.log"}) {
    batch.sources.push_back(source_of(name, 10));
    for (std::uint64_t i = 0; i < 1200; ++i) batch.sources.back().spool.push_back({i, i + 1, "line"});
  }
  batch.sources[0].row.ended = true;
  batch.sources[2].row.ended = true;
  batch.sources[2].row.job = "job2";
  REQUIRE(live.store.commit(batch).ok());
  live.add("inc1", 100, true);
  live.add("inc2", 3000, true);
  live.sweep(by_age(1000), 2000);
  CHECK(live.left() == "inc2");
  CHECK(live.store.spool(batch.sources[0].row.id)->size() == 1200);   // inc2 is of the same attempt
  live.sweep(by_age(1000), 6000);
  CHECK(live.left().empty());
  CHECK(live.store.spool(batch.sources[0].row.id)->empty());
  CHECK(live.store.spool(batch.sources[1].row.id)->size() == 1200);
  CHECK(live.store.spool(batch.sources[2].row.id)->size() == 1200);
  CHECK(live.store.watched()->size() == 3);
}

TEST_CASE("sources that ended and were not seen for long are forgotten, unless an incident of their job is open") {
  Live live;
  db::LiveBatch batch = batch_at(1);
  for (const char* name : {"gone.log", "live.log", "seen.log", "open.log"}) {
    batch.sources.push_back(source_of(name, 10));
    batch.sources.back().row.job = name;
    batch.sources.back().row.ended = true;
    batch.sources.back().spool = {{1, 1, "x"}};
  }
  batch.sources[1].row.ended = false;
  batch.sources[2].row.seen_at = at(8000);
  REQUIRE(live.store.commit(batch).ok());
  IncidentBatch open("inc1", 100, false);
  open.diagnosis.job = "open.log";
  open.batch.tracked[0].job = "open.log";
  REQUIRE(live.store.commit(open.batch).ok());
  db::RetentionLimits limits;
  limits.sources_age = std::chrono::seconds(5000);
  live.sweep(limits, 9000);
  std::string names;
  const auto rows = live.store.watched();
  REQUIRE(rows.ok());
  for (const db::WatchedRow& row : *rows) names += row.name + " ";
  CHECK(names == "live.log open.log seen.log ");
  CHECK(live.last.sources == 1);
  CHECK(live.count("SELECT count(*) FROM spool") == 3);
}

TEST_CASE("alerts without an incident and ended silences go with time") {
  Live live;
  db::LiveBatch batch = batch_at(100);
  batch.outbox = {alert_of("slack", "test", "opened", 1), alert_of("slack", "test2", "opened", 1)};
  REQUIRE(live.store.commit(batch).ok());
  auto outbox = db::Outbox::open(live.folder.file("live.db"));
  REQUIRE(*outbox->take(batch.outbox[0].id, at(1000)));
  REQUIRE(outbox->sent(batch.outbox[0].id, "", at(1000)).ok());
  auto silences = db::Silences::open(live.folder.file("live.db"));
  db::Silence silence;
  silence.kind = "gpu";
  silence.starts_at = at(1);
  silence.ends_at = at(100);
  REQUIRE(silences->add(silence, at(1)).ok());
  live.sweep(by_age(1000), 40 * 86'400);
  CHECK(live.last.alerts == 1);
  CHECK(live.last.silences == 1);
  CHECK(live.count("SELECT count(*) FROM outbox") == 1);   // the other one still waits
}
