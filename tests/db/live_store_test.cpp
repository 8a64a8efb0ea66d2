#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "db/live_store.hpp"
#include "db/migrate.hpp"
#include "db/store.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;
using db::LiveStore;

namespace {

LiveStore open(const StoreFolder& folder) {
  auto store = LiveStore::open(folder.file("live.db"));
  REQUIRE(store.ok());
  return std::move(store).value();
}

void commit(LiveStore& store, db::LiveBatch& batch) {
  const auto done = store.commit(batch);
  if (!done.ok()) FAIL(done.error().message() << ": " << done.error().reason());
}

db::WatchedRow only(LiveStore& store) {
  const auto rows = store.watched();
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 1);
  return rows->front();
}

}  // namespace

TEST_CASE("a source comes back as it was stored, to the last bit") {
  const StoreFolder folder;
  db::WatchedRow row;
  row.name = "/logs/j/1/node-7/rank3.log";
  row.generation = 4;
  row.job = "j";
  row.node = "node-7";
  row.attempt = 2;
  row.rank = 3;
  row.local_rank = std::nullopt;
  row.device = 0xffff'ffff'ffff'fff0U;
  row.inode = 77;
  row.offset = 1'000'000'007;
  row.lines = 12'345;
  row.size = 1'000'000'100;
  row.check_hash = 0x8000'0000'0000'0001U;
  row.check_bytes = 4096;
  row.tail = std::string("a\0b\xff\n", 5);
  row.batches = "1,2,3";
  row.cursor = "s=abc;i=1";
  row.seen_at = at(77);
  {
    LiveStore store = open(folder);
    db::LiveBatch batch = batch_at(1);
    batch.sources.push_back({row, {{10, 1, "first"}, {20, 2, std::string("nul\0inside", 10)}}, {}});
    commit(store, batch);
    CHECK(batch.sources[0].row.id > 0);
  }
  LiveStore store = open(folder);
  const db::WatchedRow back = only(store);
  CHECK(back.name == row.name);
  CHECK(back.generation == row.generation);
  CHECK(back.job == row.job);
  CHECK(back.node == row.node);
  CHECK(back.attempt == row.attempt);
  CHECK(back.rank == row.rank);
  CHECK(back.local_rank == row.local_rank);
  CHECK(back.device == row.device);
  CHECK(back.inode == row.inode);
  CHECK(back.offset == row.offset);
  CHECK(back.lines == row.lines);
  CHECK(back.size == row.size);
  CHECK(back.check_hash == row.check_hash);
  CHECK(back.check_bytes == row.check_bytes);
  CHECK(back.batches == row.batches);
  CHECK(back.cursor == row.cursor);
  CHECK(back.seen_at == row.seen_at);
  CHECK_FALSE(back.tail);
  const auto tail = store.tail(back.id);
  REQUIRE(tail.ok());
  CHECK(*tail == *row.tail);
  const auto spool = store.spool(back.id);
  REQUIRE(spool.ok());
  REQUIRE(spool->size() == 2);
  CHECK((*spool)[1].offset == 20);
  CHECK((*spool)[1].number == 2);
  CHECK((*spool)[1].text == std::string("nul\0inside", 10));
}

TEST_CASE("a source stays one row, whether its id is given or not, and its tail stays where none is given") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  db::LiveBatch first = batch_at(1);
  first.sources.push_back(source_of("a.log", 10));
  first.sources[0].row.tail = "before ten";
  commit(store, first);
  const std::int64_t id = first.sources[0].row.id;

  db::LiveBatch nameless = batch_at(2);
  nameless.sources.push_back(source_of("a.log", 20));
  commit(store, nameless);
  CHECK(nameless.sources[0].row.id == id);
  CHECK(only(store).offset == 20);

  db::LiveBatch known = batch_at(3);
  known.sources.push_back(source_of("a.log", 30));
  known.sources[0].row.id = id;
  known.sources[0].row.ended = true;
  known.sources[0].row.job = "job2";
  known.sources[0].row.rank = 5;
  commit(store, known);
  const db::WatchedRow row = only(store);
  CHECK(row.offset == 30);
  CHECK(row.ended);
  CHECK(row.job == "job2");
  CHECK(row.rank == 5);
  const auto tail = store.tail(id);
  REQUIRE(tail.ok());
  CHECK(*tail == "before ten");

  db::LiveBatch next = batch_at(4);
  next.sources.push_back(source_of("a.log", 1));
  next.sources[0].row.generation = 1;
  commit(store, next);
  CHECK(next.sources[0].row.id != id);
  const auto of_job = store.watched_of("job1");
  REQUIRE(of_job.ok());
  REQUIRE(of_job->size() == 1);
  CHECK(of_job->front().generation == 1);
}

TEST_CASE("a spool line is replaced by its longer text and goes when it is dropped") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  db::LiveBatch batch = batch_at(1);
  batch.sources.push_back(source_of("a.log", 10));
  batch.sources[0].spool = {{0, 1, "iteration 1"}, {5, 2, "RuntimeErr"}};
  commit(store, batch);
  batch.sources[0].spool = {{5, 2, "RuntimeError: x"}, {9, 3, "iteration 2"}};
  batch.sources[0].dropped = {0, 4444};
  commit(store, batch);
  const auto lines = store.spool(batch.sources[0].row.id);
  REQUIRE(lines.ok());
  REQUIRE(lines->size() == 2);
  CHECK((*lines)[0].text == "RuntimeError: x");
  CHECK((*lines)[1].text == "iteration 2");
  REQUIRE(store.drop_spool({batch.sources[0].row.id}).ok());
  CHECK(store.spool(batch.sources[0].row.id)->empty());
  CHECK(only(store).offset == 10);
}

TEST_CASE("a forgotten source leaves nothing, its id is not given again, and a late commit makes it anew") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  db::LiveBatch batch = batch_at(1);
  batch.sources.push_back(source_of("a.log", 10));
  batch.sources[0].spool = {{0, 1, "x"}};
  batch.sources[0].row.tail = "x";
  commit(store, batch);
  const std::int64_t id = batch.sources[0].row.id;
  REQUIRE(store.forget({id, 999}).ok());
  CHECK(store.watched()->empty());
  CHECK(store.spool(id)->empty());
  CHECK(store.tail(id)->empty());

  db::LiveBatch other = batch_at(2);
  other.sources.push_back(source_of("b.log", 1));
  commit(store, other);
  CHECK(other.sources[0].row.id != id);
  commit(store, batch);
  CHECK(batch.sources[0].row.id == id);
  CHECK(store.watched()->size() == 2);
}

TEST_CASE("an incident keeps its id while its diagnosis sharpens, and closes") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  IncidentBatch opened("inc1", 100);
  commit(store, opened.batch);
  CHECK(store.tracked_open()->size() == 1);

  IncidentBatch closed("inc1", 200, true, "{\"sharper\":1}");
  closed.diagnosis.root.source = "rank5.log";
  closed.diagnosis.root.line = 99;
  closed.diagnosis.root.rank = 5;
  closed.batch.tracked[0].revision = 2;
  commit(store, closed.batch);
  CHECK(store.tracked_open()->empty());
  const auto all = store.tracked_of("job1");
  REQUIRE(all.ok());
  REQUIRE(all->size() == 1);
  CHECK(all->front().closed);
  CHECK(all->front().revision == 2);
  const auto kept = store.find("inc");
  REQUIRE(kept.ok());
  CHECK(kept->answer == "{\"sharper\":1}");
  CHECK(kept->row.source == "rank5.log");
  CHECK(kept->row.line == 99);
  CHECK(kept->row.rank == 5);
  CHECK(kept->row.kept_at == at(100));
  CHECK(kept->row.state == db::IncidentState::closed);
  CHECK(kept->row.revision == 2);

  SUBCASE("one whose incident is not stored is left out, the rest of the batch goes in") {
    db::LiveBatch batch = batch_at(300);
    batch.tracked.push_back(tracked_of("nowhere", false, 300));
    batch.sources.push_back(source_of("a.log", 1));
    commit(store, batch);
    CHECK(store.tracked_open()->empty());
    CHECK(store.watched()->size() == 1);
  }
}

TEST_CASE("what is put into the outbox again is ignored") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  db::LiveBatch batch = batch_at(1);
  batch.outbox = {alert_of("slack", "inc1", "opened", 1), alert_of("pager", "inc1", "opened", 1)};
  commit(store, batch);
  CHECK(batch.outbox[0].id > 0);
  CHECK(batch.outbox[1].id > batch.outbox[0].id);
  db::LiveBatch again = batch_at(2);
  again.outbox = {alert_of("slack", "inc1", "opened", 1), alert_of("slack", "inc1", "updated", 2)};
  commit(store, again);
  CHECK(again.outbox[0].id == 0);
  CHECK(again.outbox[1].id > 0);
}

TEST_CASE("a change that helped counts once an incident, with what people say, and a person's word wins") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  for (int i = 0; i < 9; ++i) {
    IncidentBatch one("inc" + std::to_string(i), 100 + i, true);
    db::NextRun run;
    run.incident = "inc" + std::to_string(i);
    run.fingerprint = "v1:0123";
    run.job = "job1";
    run.attempt = 2;
    run.helped = i < 6;
    run.fixes = {"loss.fused"};
    run.at = at(500);
    if (i == 8) run.fixes = {};
    if (i == 8) run.settings = "micro-batch-size 4 -> 2";
    if (i == 8) run.helped = true;
    one.batch.next_runs.push_back(run);
    one.batch.next_runs.push_back(run);   // told twice
    commit(store, one.batch);
  }
  auto scans = db::Store::open(folder.file("live.db"));
  REQUIRE(scans.ok());
  REQUIRE(scans->say("inc7", {"loss.fused", true, "", at(600)}).ok());   // the next attempt failed, but for another reason
  REQUIRE(scans->say("inc8", {"loss.fused", false, "", at(600)}).ok());
  const auto records = store.fix_records("v1:0123");
  REQUIRE(records.ok());
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].fix == "loss.fused");
  CHECK((*records)[0].helped == 7);
  CHECK((*records)[0].tried == 9);
  CHECK((*records)[1].fix.empty());
  CHECK((*records)[1].settings == "micro-batch-size 4 -> 2");
  CHECK((*records)[1].helped == 1);
  const auto all = store.all_fix_records();
  REQUIRE(all.ok());
  REQUIRE(all->size() == 1);
  CHECK(all->begin()->second.size() == 2);
  CHECK(store.fix_records("v1:other")->empty());
  CHECK(store.fix_records("")->empty());
}

TEST_CASE("a database that scans made is taken over with all it holds, and can give pages back") {
  const StoreFolder folder;
  {
    auto old = db::Connection::open(folder.file("plain.db"), db::Connection::Mode::read_write_create);
    REQUIRE(old.ok());
    std::ifstream file(TRIAGE_SOURCE_DIR "/db/schema/0001_first.sql");
    std::stringstream sql;
    sql << file.rdbuf();
    // As the first release made it: without a vacuum mode.
    REQUIRE(old->execute("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM; BEGIN;" + sql.str() +
                         "PRAGMA application_id = 1414678341; PRAGMA user_version = 1; INSERT INTO rule_set VALUES('h','0');"
                         "INSERT INTO incident VALUES('old','f','h',1,NULL,'j',1,'user.exception','','unknown',0.5,'s','x.log',3,NULL,'',NULL,'{}');"
                         "INSERT INTO feedback VALUES('old', 5, 'loss.fused', 1, 'note'); COMMIT;")
                .ok());
    REQUIRE(*old->pragma("auto_vacuum") == 0);
  }
  {
    auto store = LiveStore::open(folder.file("plain.db"));
    REQUIRE(store.ok());
    const auto kept = store->find("old");
    REQUIRE(kept.ok());
    CHECK(kept->row.state == db::IncidentState::kept);
    CHECK(kept->feedback.size() == 1);
    CHECK(store->check().ok());
  }
  auto file = db::Connection::open(folder.file("plain.db"), db::Connection::Mode::read_only);
  REQUIRE(file.ok());
  CHECK(*file->pragma("auto_vacuum") == 2);
  CHECK(*file->pragma("user_version") == db::schema_version());
}

TEST_CASE("a batch that has to last is on the disk, and the next one is fast again") {
  const StoreFolder folder;
  LiveStore store = open(folder);
  db::LiveBatch batch = batch_at(1);
  batch.flush = true;
  batch.sources.push_back(source_of("push", 1));
  commit(store, batch);
  batch.flush = false;
  batch.sources[0].row.offset = 2;
  commit(store, batch);
  CHECK(only(store).offset == 2);
}
