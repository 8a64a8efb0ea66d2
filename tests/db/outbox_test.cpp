#include <doctest/doctest.h>

#include "db/live_store.hpp"
#include "db/outbox.hpp"
#include "db/query.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;
using db::OutboxState;

namespace {

struct Post {
  explicit Post(std::vector<db::OutboxItem> items) {
    auto store = db::LiveStore::open(folder.file("live.db"));
    REQUIRE(store.ok());
    db::LiveBatch batch = batch_at(900);
    batch.outbox = std::move(items);
    REQUIRE(store->commit(batch).ok());
    for (const db::OutboxItem& item : batch.outbox) ids.push_back(item.id);
  }
  db::Outbox open() const {
    auto outbox = db::Outbox::open(folder.file("live.db"));
    REQUIRE(outbox.ok());
    return std::move(outbox).value();
  }
  db::OutboxItem item(std::size_t index) const {
    auto query = db::Query::open(folder.file("live.db"));
    REQUIRE(query.ok());
    const auto items = query->outbox({});
    REQUIRE(items.ok());
    for (const db::OutboxItem& one : *items)
      if (one.id == ids[index]) return one;
    FAIL("no such item");
    return {};
  }
  StoreFolder folder;
  std::vector<std::int64_t> ids;
};

std::vector<std::int64_t> due(db::Outbox& outbox, std::int64_t second) {
  const auto items = outbox.due(at(second), 10);
  REQUIRE(items.ok());
  std::vector<std::int64_t> out;
  for (const db::OutboxItem& item : *items) out.push_back(item.id);
  return out;
}

using Ids = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("an alert goes from waiting over sending to sent, and is never due again") {
  Post post({alert_of("slack", "inc1", "opened", 1)});
  db::Outbox outbox = post.open();
  CHECK(due(outbox, 999).empty());
  CHECK(*outbox.next_due(at(999)) == at(1000));
  CHECK(due(outbox, 1000) == post.ids);
  CHECK_FALSE(*outbox.next_due(at(1000)));
  CHECK(*outbox.take(post.ids[0], at(1001)));
  CHECK(post.item(0).state == OutboxState::sending);
  CHECK_FALSE(*outbox.take(post.ids[0], at(1002)));   // nobody else takes it
  CHECK(due(outbox, 2000).empty());
  REQUIRE(outbox.sent(post.ids[0], "1700.42", at(1003)).ok());
  const db::OutboxItem item = post.item(0);
  CHECK(item.state == OutboxState::sent);
  CHECK(item.tries == 1);
  CHECK(item.receipt == "1700.42");
  CHECK(item.body.empty());
  CHECK(item.created_at == at(900));
  CHECK(due(outbox, 9999).empty());
  CHECK_FALSE(*outbox.take(post.ids[0], at(1004)));
  const auto receipt = outbox.receipt("slack", "inc1");
  REQUIRE(receipt.ok());
  REQUIRE(receipt->has_value());
  CHECK((*receipt)->receipt == "1700.42");
  CHECK((*receipt)->channel == "#gpu");
  CHECK_FALSE(outbox.receipt("slack", "inc2")->has_value());
}

TEST_CASE("an update does not pass its opening that waits for a retry; another incident does") {
  Post post({alert_of("slack", "inc1", "opened", 1), alert_of("slack", "inc1", "closed", 2), alert_of("slack", "inc2", "opened", 1),
             alert_of("pager", "inc1", "opened", 1)});
  db::Outbox outbox = post.open();
  CHECK(due(outbox, 1000) == Ids{post.ids[0], post.ids[2], post.ids[3]});
  REQUIRE(*outbox.take(post.ids[0], at(1000)));
  CHECK(due(outbox, 1000) == Ids{post.ids[2], post.ids[3]});
  REQUIRE(outbox.retry(post.ids[0], at(1060), "503", at(1001)).ok());
  CHECK(due(outbox, 1030) == Ids{post.ids[2], post.ids[3]});
  CHECK(post.item(0).error == "503");
  CHECK(due(outbox, 1060) == Ids{post.ids[2], post.ids[3], post.ids[0]});
  REQUIRE(*outbox.take(post.ids[0], at(1060)));
  CHECK(post.item(0).tries == 2);
  SUBCASE("when it is given up, the rest goes on") {
    REQUIRE(outbox.dead(post.ids[0], "404", at(1061)).ok());
    CHECK(due(outbox, 1061) == Ids{post.ids[1], post.ids[2], post.ids[3]});
  }
  SUBCASE("when nobody knows whether it arrived, too") {
    REQUIRE(outbox.uncertain(post.ids[0], "cut", at(1061)).ok());
    CHECK(due(outbox, 1061) == Ids{post.ids[1], post.ids[2], post.ids[3]});
  }
}

TEST_CASE("what was being sent when the service died is not sent again, unless its sink takes it twice without harm") {
  Post post({alert_of("slack", "inc1", "opened", 1), alert_of("pager", "inc1", "opened", 1), alert_of("slack", "inc2", "opened", 1)});
  {
    db::Outbox outbox = post.open();
    REQUIRE(*outbox.take(post.ids[0], at(1000)));
    REQUIRE(*outbox.take(post.ids[1], at(1000)));
  }
  db::Outbox outbox = post.open();
  const auto recovered = outbox.recover({"pager", "other"}, at(1100));
  REQUIRE(recovered.ok());
  CHECK(recovered->waiting == 1);
  CHECK(recovered->uncertain == 1);
  CHECK(post.item(0).state == OutboxState::uncertain);
  CHECK(due(outbox, 2000) == Ids{post.ids[1], post.ids[2]});
  const auto nothing = outbox.recover({"pager"}, at(1200));
  REQUIRE(nothing.ok());
  CHECK(nothing->uncertain == 0);
  CHECK(nothing->waiting == 0);
}

TEST_CASE("dead letters are listed, counted, and go out again when a person wants it") {
  Post post({alert_of("slack", "inc1", "opened", 1), alert_of("slack", "inc2", "opened", 1)});
  db::Outbox outbox = post.open();
  REQUIRE(*outbox.take(post.ids[0], at(1000)));
  REQUIRE(outbox.dead(post.ids[0], "404 channel_not_found", at(1001)).ok());
  auto query = db::Query::open(post.folder.file("live.db"));
  REQUIRE(query.ok());
  db::OutboxQuery letters;
  letters.states = {OutboxState::dead, OutboxState::uncertain};
  const auto list = query->outbox(letters);
  REQUIRE(list.ok());
  REQUIRE(list->size() == 1);
  CHECK(list->front().error == "404 channel_not_found");
  CHECK_FALSE(list->front().body.empty());
  const auto counts = outbox.counts();
  REQUIRE(counts.ok());
  REQUIRE(counts->size() == 2);
  CHECK(counts->front().state == OutboxState::dead);
  CHECK(counts->front().items == 1);
  CHECK(counts->front().oldest == at(900));

  CHECK(outbox.requeue(post.ids[1], at(1100)).error().code() == parsers::ErrorCode::conflict);
  CHECK(outbox.requeue(4711, at(1100)).error().code() == parsers::ErrorCode::not_found);
  REQUIRE(outbox.requeue(post.ids[0], at(1100)).ok());
  CHECK(due(outbox, 1100) == Ids{post.ids[1], post.ids[0]});
  CHECK_FALSE(outbox.sent(4711, "", at(1100)).ok());
}

TEST_CASE("the first message stays the thread of an incident until it is gone at the sink") {
  Post post({alert_of("slack", "inc1", "opened", 1), alert_of("slack", "inc1", "updated", 2), alert_of("slack", "inc1", "closed", 3)});
  db::Outbox outbox = post.open();
  const auto send = [&](std::size_t index, const char* receipt) {
    REQUIRE(*outbox.take(post.ids[index], at(1000)));
    REQUIRE(outbox.sent(post.ids[index], receipt, at(1000)).ok());
  };
  send(0, "first");
  send(1, "answer");
  CHECK((*outbox.receipt("slack", "inc1"))->receipt == "first");
  REQUIRE(outbox.forget_receipt("slack", "inc1").ok());
  send(2, "second");
  CHECK((*outbox.receipt("slack", "inc1"))->receipt == "second");
}

TEST_CASE("there is no outbox without the database of a service") {
  const StoreFolder folder;
  const auto outbox = db::Outbox::open(folder.file("none.db"));
  REQUIRE_FALSE(outbox.ok());
  CHECK(outbox.error().code() == parsers::ErrorCode::not_found);
  CHECK_FALSE(std::filesystem::exists(folder.file("none.db")));
}

TEST_CASE("what is due at one sink does not depend on what waits at another") {
  std::vector<db::OutboxItem> items;
  for (int i = 0; i < 50; ++i) items.push_back(alert_of("down", "inc" + std::to_string(i), "opened", 1));
  items.push_back(alert_of("slack", "inc1", "opened", 1));
  Post post(std::move(items));
  db::Outbox outbox = post.open();
  const auto found = outbox.due_at("slack", at(2000), 10);
  REQUIRE(found.ok());
  REQUIRE(found->size() == 1);
  CHECK(found->at(0).id == post.ids.back());
  CHECK(outbox.due_at("slack", at(999), 10)->empty());
  CHECK(outbox.due_at("down", at(2000), 10)->size() == 10);
}

TEST_CASE("an item that still waits is taken back; one that is being sent is not") {
  Post post({alert_of("slack", "inc1", "opened", 1), alert_of("mail", "inc1", "opened", 1)});
  {
    db::Outbox outbox = post.open();
    REQUIRE(*outbox.take(post.ids[1], at(1000)));
  }
  auto store = db::LiveStore::open(post.folder.file("live.db"));
  REQUIRE(store.ok());
  db::LiveBatch batch = batch_at(1001);
  batch.withdraw = {{"slack", "inc1", "opened", 1}, {"mail", "inc1", "opened", 1}, {"mail", "none", "opened", 1}};
  batch.outbox = {alert_of("slack", "inc1", "opened", 1)};   // the same key again, with another text
  REQUIRE(store->commit(batch).ok());
  CHECK(batch.outbox[0].id > post.ids[1]);
  db::Outbox outbox = post.open();
  CHECK(due(outbox, 2000) == Ids{batch.outbox[0].id});
  CHECK(post.item(1).state == OutboxState::sending);
}

TEST_CASE("after the clock was set back an alert waits as long as before, not until the old time comes again") {
  Post post({alert_of("slack", "inc1", "opened", 1), alert_of("slack", "inc2", "opened", 1)});
  {
    db::Outbox outbox = post.open();
    REQUIRE(*outbox.take(post.ids[0], at(100'000)));
    REQUIRE(outbox.retry(post.ids[0], at(100'060), "503", at(100'000)).ok());
    REQUIRE(*outbox.take(post.ids[1], at(100'000)));   // the service dies while it is sent
  }
  db::Outbox outbox = post.open();
  REQUIRE(outbox.recover({"slack"}, at(50'000)).ok());   // started again, half a day earlier by the clock
  CHECK(due(outbox, 50'000) == Ids{post.ids[1]});
  CHECK(due(outbox, 50'060) == Ids{post.ids[1], post.ids[0]});
  REQUIRE(outbox.set_back(at(10'000)).ok());
  CHECK(due(outbox, 10'060).size() == 2);
}
