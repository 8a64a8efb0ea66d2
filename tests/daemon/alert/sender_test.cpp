// The sender, step by step with its own clock, and as threads against servers that misbehave.
#include "daemon/alert/sender.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "daemon/alert/store_outbox.hpp"
#include "db/live_store.hpp"
#include "tests/support/fake_http.hpp"
#include "tests/support/sample_alert.hpp"

using namespace triage::daemon;
using namespace triage::tests;
using namespace triage::tests::alerting;
using namespace std::chrono_literals;
using triage::parsers::Error;
using triage::parsers::ErrorCode;
using triage::parsers::Result;
using triage::parsers::Status;
using triage::parsers::TimePoint;

namespace {

// An outbox in memory that checks the order of calls: nothing is settled that was not taken.
class MemoryOutbox final : public AlertOutbox {
 public:
  struct Row {
    AlertItem item;
    std::string state = "waiting", error, receipt;
  };
  std::map<std::int64_t, Row> rows;
  std::map<std::pair<std::string, std::string>, std::string> receipts;
  int broken = 0;                      // so many calls fail

  std::int64_t put(AlertItem item) {
    item.id = static_cast<std::int64_t>(rows.size()) + 1;
    rows[item.id] = {item, "waiting", "", ""};
    return item.id;
  }
  Result<std::vector<AlertItem>> due(const std::string& sink, TimePoint now, std::size_t limit) override {
    if (broken > 0 && broken--) return Error(ErrorCode::unavailable, "the database is locked");
    std::vector<AlertItem> out;
    for (const auto& [id, row] : rows) {
      const bool first = std::none_of(rows.begin(), rows.end(), [&, own = id, incident = row.item.incident](const auto& other) {
        return other.first < own && other.second.item.incident == incident && (other.second.state == "waiting" || other.second.state == "sending");
      });
      if (row.item.sink == sink && row.state == "waiting" && row.item.not_before <= now && first && out.size() < limit) out.push_back(row.item);
    }
    return out;
  }
  Result<bool> take(std::int64_t id, TimePoint) override {
    if (rows[id].state != "waiting") return false;
    rows[id].state = "sending";
    return true;
  }
  Status sent(std::int64_t id, const std::string& receipt, TimePoint) override {
    if (broken > 0 && broken--) return Error(ErrorCode::unavailable, "the database is locked");
    (void)settle(id, "sent", "");
    rows[id].receipt = receipt;
    receipts.emplace(std::pair(rows[id].item.sink, rows[id].item.incident), receipt);
    return triage::parsers::done();
  }
  Status retry(std::int64_t id, TimePoint not_before, const std::string& error, TimePoint) override {
    (void)settle(id, "waiting", error);
    rows[id].item.not_before = not_before;
    ++rows[id].item.tries;
    return triage::parsers::done();
  }
  Status dead(std::int64_t id, const std::string& error, TimePoint) override { return settle(id, "dead", error); }
  Status uncertain(std::int64_t id, const std::string& error, TimePoint) override { return settle(id, "uncertain", error); }
  Result<std::optional<AlertReceipt>> receipt(const std::string& sink, const std::string& incident) override {
    const auto found = receipts.find({sink, incident});
    if (found == receipts.end()) return std::optional<AlertReceipt>();
    return std::optional<AlertReceipt>(AlertReceipt{"", found->second});
  }
  Status forget_receipt(const std::string& sink, const std::string& incident) override {
    receipts.erase({sink, incident});
    return triage::parsers::done();
  }

 private:
  Status settle(std::int64_t id, const std::string& state, const std::string& error) {
    CHECK(rows[id].state == "sending");
    rows[id].state = state;
    rows[id].error = error;
    return triage::parsers::done();
  }
};

// A sink that says what the test tells it to.
class ScriptedSink final : public AlertSink {
 public:
  std::shared_ptr<std::vector<std::pair<std::string, std::string>>> seen = std::make_shared<std::vector<std::pair<std::string, std::string>>>();   // incident/event, receipt
  std::function<Outcome(const Delivery&)> answer = [](const Delivery&) { return Outcome::told(); };
  Outcome send(const Delivery& delivery, const HttpClient&, const std::stop_token&) const override {
    seen->emplace_back(delivery.item.incident + "/" + delivery.item.event, delivery.receipt);
    return answer(delivery);
  }
};

struct Bench {
  MemoryOutbox outbox;
  std::mutex lock;
  HttpClient client{ClientSettings{}};
  TimePoint now = noon();
  std::vector<SenderEvent> events;
  std::shared_ptr<std::vector<std::pair<std::string, std::string>>> seen;
  std::unique_ptr<SinkWorker> worker;

  explicit Bench(std::function<Outcome(const Delivery&)> answer, SinkSettings settings = SlackWebhookSettings{{"https://x"}}) {
    auto sink = std::make_unique<ScriptedSink>();
    sink->answer = std::move(answer);
    seen = sink->seen;
    SinkConfig config;
    config.name = "chat";
    config.settings = std::move(settings);
    worker = std::make_unique<SinkWorker>(config, 24h, std::move(sink), 1);
  }
  std::int64_t put(const std::string& incident_id, const std::string& event = "opened", std::uint64_t revision = 1) {
    AlertItem item = Item(alert(event, revision, incident(incident_id))).item;
    item.not_before = now;
    item.created_at = now;
    return outbox.put(item);
  }
  std::chrono::milliseconds step() {
    return worker->step(outbox, lock, client, {}, {[this] { return now; }}, [this](const SenderEvent& event) { events.push_back(event); });
  }
  // Runs for so long; returns the sends.
  std::size_t run(std::chrono::seconds time) {
    const std::size_t before = seen->size();
    for (const TimePoint end = now + time; now < end;) now += std::max(step(), 1ms);
    return seen->size() - before;
  }
};

}  // namespace

TEST_CASE("an item is taken before it is sent, and its receipt is kept for the next") {
  Bench bench([](const Delivery& delivery) { return Outcome::told(delivery.receipt.empty() ? "ts1" : ""); });
  bench.put("a");
  bench.put("a", "updated", 2);
  CHECK(bench.run(5s) == 2);
  CHECK(bench.seen->at(0) == std::pair<std::string, std::string>{"a/opened", ""});
  CHECK(bench.seen->at(1) == std::pair<std::string, std::string>{"a/updated", "ts1"});
  CHECK(bench.outbox.rows[2].state == "sent");
  CHECK(bench.worker->status().sent == 2);
}

TEST_CASE("a channel gets one message a second") {
  Bench bench([](const Delivery&) { return Outcome::told(); });
  for (int i = 0; i < 100; ++i) bench.put("i" + std::to_string(i));
  CHECK(bench.run(10s) == 10);
  CHECK(bench.run(5s) == 5);
}

TEST_CASE("trouble: waits longer and longer, with jitter, one message at a time, and tells all once it is over") {
  bool down = true;
  Bench bench([&](const Delivery&) { return down ? Outcome::again("HTTP 503") : Outcome::told(); });
  for (int i = 0; i < 200; ++i) bench.put("i" + std::to_string(i));
  const std::size_t tries = bench.run(3600s);             // an hour
  CHECK(tries > 50);
  CHECK(tries < 130);                                     // about once a minute, not 3600 times
  CHECK(bench.worker->status().failures > 10);
  down = false;
  bench.run(700s);
  for (const auto& [id, row] : bench.outbox.rows) CHECK(row.state == "sent");
  CHECK(bench.worker->status().failures == 0);
}

TEST_CASE("Retry-After holds the whole sink, not longer") {
  int count = 0;
  Bench bench([&](const Delivery&) { return ++count == 1 ? Outcome::again("HTTP 429", 30s) : Outcome::told(); });
  bench.put("a");
  bench.put("b");
  CHECK(bench.run(29s) == 1);
  CHECK(bench.run(5s) == 2);
}

TEST_CASE("a message that fails alone does not stop the others") {
  Bench bench([](const Delivery& delivery) { return delivery.item.incident == "poison" ? Outcome::again("HTTP 500", std::nullopt, false) : Outcome::told(); });
  bench.put("poison");
  for (int i = 0; i < 20; ++i) bench.put("i" + std::to_string(i));
  bench.run(40s);
  CHECK(std::count_if(bench.outbox.rows.begin(), bench.outbox.rows.end(), [](const auto& row) { return row.second.state == "sent"; }) == 20);
  bench.run(25h);
  CHECK(bench.outbox.rows[1].state == "dead");
  CHECK(bench.outbox.rows[1].error.find("given up after 24 h") != std::string::npos);
  CHECK(bench.worker->status().dead == 1);
}

TEST_CASE("doubt: kept as uncertain where the sink cannot know the message again, told again where it can") {
  int count = 0;
  const auto answer = [&](const Delivery&) { return ++count == 1 ? Outcome::unknown("no answer") : Outcome::told(); };
  Bench chat(answer);
  chat.put("a");
  CHECK(chat.run(3600s) == 1);
  CHECK(chat.outbox.rows[1].state == "uncertain");
  count = 0;
  Bench pager(answer, PagerDutySettings{{"k"}, "https://p", false});
  pager.put("a");
  CHECK(pager.run(3600s) == 2);
  CHECK(pager.outbox.rows[1].state == "sent");
}

TEST_CASE("a refusal is a dead letter at once; a damaged body too; errors are masked") {
  Bench bench([](const Delivery&) { return Outcome::refused("HTTP 403: password=hunter2"); });
  bench.put("a");
  AlertItem damaged;
  damaged.sink = "chat";
  damaged.incident = "b";
  damaged.body = "{not json";
  damaged.created_at = damaged.not_before = noon();
  bench.outbox.put(damaged);
  CHECK(bench.run(10s) == 1);
  CHECK(bench.outbox.rows[1].state == "dead");
  CHECK(bench.outbox.rows[1].error.find("hunter2") == std::string::npos);
  CHECK(bench.outbox.rows[2].state == "dead");
}

TEST_CASE("a message that is gone at the sink is posted anew") {
  Bench bench([](const Delivery& delivery) {
    if (delivery.receipt.empty()) return Outcome::told("new");
    Outcome out = Outcome::again("message_not_found", 0s, false);
    out.gone = true;
    return out;
  });
  bench.put("a");
  bench.put("a", "updated", 2);
  CHECK(bench.run(10s) == 3);
  CHECK(bench.outbox.rows[2].state == "sent");
}

TEST_CASE("an incident that was told with others is answered in their message") {
  bool own = true;
  Bench bench([&](const Delivery& delivery) {
    own = delivery.own;
    return Outcome::told("ts-" + delivery.item.incident);
  });
  bench.put("leader");
  bench.run(2s);
  AlertItem member = Item(alert("closed", 2, incident("member"))).item;
  Json body = Json::parse(member.body);
  body["policy"] = {{"thread", "leader"}};
  member.body = json_text(body, -1);
  member.not_before = member.created_at = bench.now;
  bench.outbox.put(member);
  bench.run(2s);
  CHECK(bench.seen->back() == std::pair<std::string, std::string>{"member/closed", "ts-leader"});
  CHECK_FALSE(own);
}

TEST_CASE("an outbox that is locked is asked again, and a send is never repeated for it") {
  Bench bench([](const Delivery&) { return Outcome::told(); });
  bench.put("a");
  bench.outbox.broken = 3;
  CHECK(bench.run(10s) == 1);
  CHECK(bench.outbox.rows[1].state == "sent");
  CHECK(std::any_of(bench.events.begin(), bench.events.end(), [](const SenderEvent& event) { return event.what == SenderEvent::What::outbox_fault; }));
  Bench recording([](const Delivery&) { return Outcome::told(); });
  recording.put("a");
  auto& outbox = recording.outbox;
  int asked = 0;                                          // the clock is asked before and after the send: the record after it fails once
  recording.worker->step(outbox, recording.lock, recording.client, {}, {[&] {
    if (++asked == 2) outbox.broken = 1;
    return recording.now;
  }}, {});
  CHECK(recording.seen->size() == 1);
  CHECK(outbox.rows[1].state == "sent");
}

TEST_CASE("a clock that is set back does not silence a sink") {
  Bench bench([](const Delivery&) { return Outcome::told(); });
  bench.put("a");
  bench.run(2s);
  bench.now -= 24h;
  bench.put("b");
  CHECK(bench.run(3s) == 1);
}

TEST_CASE("threads: a sink that hangs holds up no other, and the end comes within two seconds") {
  FakeHttp good(PeerAnswer{}), hanging(PeerAnswer{200, "ok", {}, 60'000ms, PeerAnswer::Cut::none});
  auto config = std::make_shared<AlertConfig>();
  for (const auto& [name, url] : {std::pair<std::string, std::string>{"good", good.url()}, {"hanging", hanging.url()}}) {
    SinkConfig sink;
    sink.name = name;
    sink.settings = SlackWebhookSettings{{url}};
    sink.every = 0ms;
    config->sinks.push_back(sink);
  }
  config->client.timeout = 60'000ms;
  MemoryOutbox outbox;
  for (int i = 0; i < 20; ++i)
    for (const char* sink : {"good", "hanging"}) {
      AlertItem item = Item(alert("opened", 1, incident("i" + std::to_string(i)))).item;
      item.sink = sink;
      item.created_at = item.not_before = noon();
      item.incident += sink;
      outbox.put(item);
    }
  std::atomic<int> told{0};
  const auto begin = std::chrono::steady_clock::now();
  AlertSender sender(config, outbox, [&](const SenderEvent& event) { told += event.what == SenderEvent::What::sent; });
  sender.wake();
  while (told < 20 && std::chrono::steady_clock::now() - begin < 10s) std::this_thread::sleep_for(5ms);
  CHECK(told == 20);
  const auto stop = std::chrono::steady_clock::now();
  sender.stop();
  CHECK(std::chrono::steady_clock::now() - stop < 2s);
  CHECK(good.requests().size() == 20);
  CHECK(hanging.requests().size() == 1);
  int uncertain = 0;
  for (const auto& [id, row] : outbox.rows) {
    CHECK(row.state != "sending");
    uncertain += row.state == "uncertain";
  }
  CHECK(uncertain == 1);                                  // it had gone out, nobody knows
}

TEST_CASE("the real outbox: a kill between send and record is never a second message to people") {
  const PeerFolder folder;
  const std::string path = (folder.path() / "live.db").string();
  FakeHttp peer(PeerAnswer{});
  auto config = std::make_shared<AlertConfig>();
  SinkConfig chat, hook;
  chat.name = "chat";
  chat.settings = SlackWebhookSettings{{peer.url("/chat")}};
  hook.name = "hook";
  hook.settings = WebhookSettings{{peer.url("/hook")}, {}, {}};
  chat.every = hook.every = 0ms;
  config->sinks = {chat, hook};
  {
    auto store = triage::db::LiveStore::open(path);
    REQUIRE(store.ok());
    triage::db::LiveBatch batch;
    batch.now = noon();
    for (const char* sink : {"chat", "hook"})
      for (int i = 0; i < 3; ++i) {
        AlertItem item = Item(alert("opened", 1, incident("i" + std::to_string(i)))).item;
        item.sink = sink;
        item.not_before = noon();
        batch.outbox.push_back(outbox_item(item));
      }
    REQUIRE(store->commit(batch).ok());
    auto dying = triage::db::Outbox::open(path);          // took one of each, sent it, and was killed
    REQUIRE(dying.ok());
    REQUIRE(*dying->take(batch.outbox[0].id, noon()));
    REQUIRE(*dying->take(batch.outbox[3].id, noon()));
  }
  auto opened = triage::db::Outbox::open(path);
  REQUIRE(opened.ok());
  const auto recovered = opened->recover(idempotent_sinks(*config), noon());
  REQUIRE(recovered.ok());
  CHECK(recovered->waiting == 1);
  CHECK(recovered->uncertain == 1);
  StoreOutbox outbox(std::move(opened).value());
  std::atomic<int> told{0};
  {
    AlertSender sender(config, outbox, [&](const SenderEvent& event) { told += event.what == SenderEvent::What::sent; });
    for (int i = 0; i < 1000 && told < 5; ++i) std::this_thread::sleep_for(5ms);
    std::this_thread::sleep_for(50ms);
  }
  CHECK(told == 5);
  std::map<std::string, int> by_target;
  for (const PeerRequest& request : peer.requests()) ++by_target[request.target];
  CHECK(by_target["/chat"] == 2);
  CHECK(by_target["/hook"] == 3);
}

TEST_CASE("a test alert goes to one sink, and says what came of it") {
  FakeHttp good(PeerAnswer{}), refusing(PeerAnswer{404, "no_service", {}, 0ms, PeerAnswer::Cut::none});
  AlertConfig config;
  SinkConfig first, second;
  first.name = "good";
  first.settings = SlackWebhookSettings{{good.url()}};
  second.name = "bad";
  second.settings = SlackWebhookSettings{{refusing.url()}};
  config.sinks = {first, second};
  const HttpClient client(config.client);
  const auto sent = send_test_alert(config, "good", client, noon());
  REQUIRE(sent.ok());
  CHECK(*sent == "sent to good (slack_webhook)");
  CHECK(good.requests()[0].body.find("test of the alert sink") != std::string::npos);
  const auto refused = send_test_alert(config, "bad", client, noon());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().reason() == "HTTP 404: no_service");
  const auto unknown = send_test_alert(config, "god", client, noon());
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().help_text() == "known: good, bad");
}
