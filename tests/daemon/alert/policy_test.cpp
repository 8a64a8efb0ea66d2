#include "daemon/alert/policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "daemon/alert/store_outbox.hpp"
#include "tests/support/sample_alert.hpp"

using namespace triage::daemon;
using namespace triage::tests::alerting;
using namespace std::chrono_literals;
using triage::parsers::TimePoint;

namespace {

TimePoint at(std::chrono::seconds time) { return noon() + time; }

SinkConfig sink(const std::string& name, SinkSettings settings) {
  SinkConfig out;
  out.name = name;
  out.settings = std::move(settings);
  return out;
}

AlertConfig config() {
  AlertConfig out;
  out.sinks = {sink("chat", SlackWebhookSettings{{"https://x"}}), sink("bot", SlackBotSettings{{"t"}, "#gpu", "https://slack.com/api", true}), sink("pager", PagerDutySettings{{"k"}, "https://p", false})};
  AlertRoute all;
  all.sinks = {"chat"};
  out.routes = {all};
  out.inhibit = default_inhibition();
  return out;
}

Alert change(const std::string& id, const std::string& event = "opened", std::uint64_t revision = 1, const std::string& job = "llama", const std::string& kind = "gpu.oom.capacity",
             TimePoint opened = noon()) {
  Json json = incident(id);
  json["job"] = job;
  json["kind"] = kind;
  json["fingerprint"] = "v1:" + kind;
  return alert(event, revision, json, opened);
}

// An outbox that applies plans; sends what is due when told.
struct Box {
  AlertPolicy policy;
  std::vector<AlertItem> waiting, sent;
  std::vector<HeldAlert> held;
  explicit Box(AlertConfig with = config()) : policy(std::make_shared<AlertConfig>(std::move(with))) {}

  void apply(AlertPlan plan) {
    for (const AlertKey& key : plan.withdraw)
      std::erase_if(waiting, [&](const AlertItem& item) { return item.sink == key.sink && item.incident == key.incident && item.event == key.event && item.revision == key.revision; });
    for (AlertItem& item : plan.put) waiting.push_back(std::move(item));
    for (HeldAlert& one : plan.held) held.push_back(std::move(one));
  }
  void plan(const Alert& alert, TimePoint now, const SilenceCheck& silenced = {}) { apply(policy.plan(alert, silenced, now)); }
  std::size_t send(TimePoint now) {
    std::size_t count = 0;
    for (const AlertItem& item : waiting)
      if (item.not_before <= now) {
        sent.push_back(item);
        ++count;
      }
    std::erase_if(waiting, [&](const AlertItem& item) { return item.not_before <= now; });
    return count;
  }
  std::string why() const { return held.empty() ? "" : held.back().why; }
};

Json body(const AlertItem& item) { return Json::parse(item.body); }

}  // namespace

TEST_CASE("an incident is told once, after the group's wait; the same change again is nothing") {
  Box box;
  box.plan(change("a"), at(0s));
  REQUIRE(box.waiting.size() == 1);
  CHECK(box.waiting[0].not_before == at(10s));
  CHECK(box.waiting[0].event == "opened");
  CHECK(box.waiting[0].channel == "chat");
  box.plan(change("a"), at(1s));
  CHECK(box.waiting.size() == 1);
  CHECK(box.send(at(10s)) == 1);
  box.plan(change("a"), at(11s));
  CHECK(box.waiting.empty());
}

TEST_CASE("incidents of one cause within the wait are one message to people, and one each to machines") {
  AlertConfig with = config();
  with.routes[0].sinks = {"chat", "pager"};
  Box box(with);
  box.plan(change("a", "opened", 1, "job1"), at(0s));
  box.plan(change("b", "opened", 1, "job2"), at(2s));
  box.plan(change("c", "opened", 1, "job3"), at(4s));
  box.plan(change("x", "opened", 1, "job4", "num.nan"), at(4s));   // another cause
  CHECK(box.send(at(9s)) == 0);
  CHECK(box.send(at(10s)) == 2);   // chat with three, pager a
  CHECK(box.send(at(14s)) == 4);
  std::size_t chat = 0;
  for (const AlertItem& item : box.sent)
    if (item.sink == "chat" && item.incident != "x") {
      ++chat;
      CHECK(item.incident == "c");
      REQUIRE(body(item)["group"]["others"].size() == 2);
      CHECK(body(item)["group"]["others"][0]["job"] == "job1");
      CHECK(body(item)["group"]["others"][1]["job"] == "job2");
    }
  CHECK(chat == 1);
  CHECK(std::count_if(box.sent.begin(), box.sent.end(), [](const AlertItem& item) { return item.sink == "pager"; }) == 4);
  // A member's later change answers the message that told of it.
  Json json = incident("a");
  json["summary"] = "now we know more";
  box.plan(alert("closed", 2, json), at(60s));
  REQUIRE(!box.waiting.empty());
  CHECK(body(box.waiting[0])["policy"]["thread"] == "c");
}

TEST_CASE("the same cause in the same job is told again only after the repeat interval, with a count") {
  Box box;
  box.plan(change("a"), at(0s));
  box.send(at(10s));
  for (int i = 1; i <= 3; ++i) {
    box.plan(change("again" + std::to_string(i)), at(i * 600s));
    CHECK(box.waiting.empty());
    CHECK(box.why().starts_with("told "));
  }
  box.plan(change("other", "opened", 1, "another job"), at(2000s));
  CHECK(box.send(at(2010s)) == 1);
  box.plan(change("later"), at(5h));
  REQUIRE(box.waiting.size() == 1);
  CHECK(body(box.waiting[0])["seen"] == 3);
}

TEST_CASE("updates: a newer one replaces what waits; people hear what changes what they do; machines hear all") {
  Json sharper = incident("a");
  sharper["kind"] = "gpu.oom.fragmentation";
  SUBCASE("while it waits: one message at the first one's time") {
    Box box;
    box.plan(alert("opened", 1, incident("a")), at(0s));
    box.plan(alert("updated", 2, sharper), at(3s));
    REQUIRE(box.waiting.size() == 1);
    CHECK(box.waiting[0].not_before == at(10s));
    CHECK(body(box.waiting[0])["incident"]["kind"] == "gpu.oom.fragmentation");
  }
  SUBCASE("people, without a message that can be changed") {
    Box box;
    box.plan(alert("opened", 1, incident("a")), at(0s));
    box.send(at(10s));
    box.plan(alert("updated", 2, sharper), at(20s));
    CHECK(box.waiting.empty());                         // waits for the end
    box.plan(alert("closed", 3, sharper), at(90s));
    CHECK(box.send(at(120s)) == 1);
    CHECK(box.sent.back().event == "closed");
  }
  SUBCASE("people, the diagnosis stayed: told once") {
    Box box;
    box.plan(alert("opened", 1, incident("a")), at(0s));
    box.send(at(10s));
    box.plan(alert("updated", 2, incident("a")), at(20s));
    box.plan(alert("closed", 3, incident("a")), at(90s));
    CHECK(box.waiting.empty());
  }
  SUBCASE("a message that can be changed follows, at most once in the interval, and is closed") {
    AlertConfig with = config();
    with.routes[0].sinks = {"bot"};
    Box box(with);
    box.plan(alert("opened", 1, incident("a")), at(0s));
    box.send(at(10s));
    box.plan(alert("updated", 2, sharper), at(20s));
    REQUIRE(box.waiting.size() == 1);
    CHECK(box.waiting[0].not_before == at(70s));
    sharper["summary"] = "more";
    box.plan(alert("updated", 3, sharper), at(30s));
    REQUIRE(box.waiting.size() == 1);
    CHECK(box.waiting[0].revision == 3);
    CHECK(box.waiting[0].not_before == at(70s));
    box.send(at(70s));
    box.plan(alert("closed", 4, sharper), at(100s));
    REQUIRE(box.waiting.size() == 1);
    CHECK(box.waiting[0].event == "closed");
  }
  SUBCASE("an old revision is nothing") {
    Box box;
    box.plan(alert("opened", 5, incident("a")), at(0s));
    box.send(at(10s));
    box.plan(alert("updated", 4, sharper), at(20s));
    box.plan(alert("closed", 4, sharper), at(20s));
    CHECK(box.waiting.empty());
  }
}

TEST_CASE("a later run is told where the failure was told, and only there") {
  Box box;
  box.plan(change("a"), at(0s));
  box.send(at(10s));
  Alert next = change("a", "next_run", 1);
  next.next_run = {{"attempt", 2}, {"helped", true}, {"settings", "x 4 -> 2"}};
  box.plan(next, at(3600s));
  REQUIRE(box.waiting.size() == 1);
  CHECK(box.waiting[0].event == "next_run");
  CHECK(body(box.waiting[0])["next_run"]["settings"] == "x 4 -> 2");
  box.send(at(3600s));
  Alert unknown = change("never-told", "next_run", 1, "other");
  box.plan(unknown, at(3700s));
  CHECK(box.waiting.empty());
}

TEST_CASE("echoes are held back, also those that came first") {
  SUBCASE("the cause first") {
    Box box;
    box.plan(change("cause", "opened", 1, "llama", "gpu.xid.79"), at(0s));
    box.plan(change("echo", "opened", 1, "llama", "nccl.timeout"), at(5s));
    CHECK(box.waiting.size() == 1);
    CHECK(box.why() == "echo of cause");
  }
  SUBCASE("the echo first") {
    Box box;
    box.plan(change("echo", "opened", 1, "llama", "nccl.timeout"), at(0s));
    box.plan(change("cause", "opened", 1, "llama", "gpu.xid.79"), at(5s));
    REQUIRE(box.waiting.size() == 1);
    CHECK(box.waiting[0].incident == "cause");
  }
  SUBCASE("the same node, another job") {
    Box box;
    box.plan(change("cause", "opened", 1, "llama", "gpu.fallen_off_bus"), at(0s));
    box.plan(change("echo", "opened", 1, "qwen", "cuda.launch_failure"), at(5s));
    CHECK(box.waiting.size() == 1);
  }
  SUBCASE("long ago, another place, or a cause of its own: told") {
    Box box;
    box.plan(change("cause", "opened", 1, "llama", "gpu.oom.limit"), at(0s));
    box.plan(change("elsewhere", "opened", 1, "qwen", "nccl.timeout"), at(5s));
    box.plan(change("own", "opened", 1, "llama", "num.nan"), at(5s));
    box.plan(change("late", "opened", 1, "llama", "nccl.timeout", at(3600s)), at(3600s));
    CHECK(box.waiting.size() == 4);
  }
}

TEST_CASE("silences hold back, take back what waits, and end") {
  triage::db::Silence silence;
  silence.id = 7;
  silence.job = "llama";
  silence.starts_at = at(0s);
  silence.ends_at = at(100s);
  const SilenceCheck silenced = silence_check({silence});
  Box box;
  box.plan(change("a"), at(1s), silenced);
  CHECK(box.waiting.empty());
  CHECK(box.why() == "silence 7");
  box.plan(change("b", "opened", 1, "qwen"), at(1s), silenced);
  CHECK(box.waiting.size() == 1);
  box.plan(change("c"), at(2s));                          // not silenced yet; of the same cause as b
  REQUIRE(box.waiting.size() == 1);
  CHECK(box.waiting[0].incident == "c");
  box.apply(box.policy.recheck(silenced, at(3s)));
  REQUIRE(box.waiting.size() == 1);
  CHECK(box.waiting[0].incident == "b");                  // stays, alone, at its time
  CHECK(box.waiting[0].not_before == at(11s));
  CHECK(body(box.waiting[0])["group"]["others"].empty());
  box.plan(change("d"), at(4s));                          // and one whose silence comes with its next change
  box.plan(change("d", "updated", 2), at(5s), silenced);
  REQUIRE(box.waiting.size() == 1);
  CHECK(box.waiting[0].incident == "b");
  box.send(at(50s));
  box.plan(change("c", "closed", 2), at(200s), silenced);  // the silence has ended: now it is told
  CHECK(box.waiting.size() == 1);
}

TEST_CASE("routes: the first that fits, unless it goes on; muted ones tell nobody") {
  AlertConfig with = config();
  AlertRoute quiet, pager, rest;
  quiet.jobs = {"debug-*"};
  quiet.mute = true;
  pager.kinds = {"gpu.xid", "host.oom.*"};
  pager.severities = {"critical"};
  pager.sinks = {"pager"};
  pager.go_on = true;
  pager.group_wait = 0s;
  rest.sinks = {"chat", "pager"};
  with.routes = {quiet, pager, rest};
  Box box(with);
  box.plan(change("a", "opened", 1, "debug-1", "gpu.xid.79"), at(0s));
  CHECK(box.waiting.empty());
  CHECK(box.why() == "muted by a route");
  box.plan(change("b", "opened", 1, "llama", "gpu.xid.79"), at(0s));
  REQUIRE(box.waiting.size() == 2);
  CHECK(box.waiting[0].sink == "pager");
  CHECK(box.waiting[0].not_before == at(0s));
  CHECK(box.waiting[1].sink == "chat");
}

TEST_CASE("after a restart nothing is told twice, and what waited is still replaced") {
  Box box;
  box.plan(change("sent"), at(0s));
  box.send(at(10s));
  box.plan(change("waits", "opened", 1, "other job"), at(20s));
  std::vector<triage::db::OutboxItem> rows;
  triage::db::OutboxItem first = outbox_item(box.sent[0]), second = outbox_item(box.waiting[0]);
  first.id = 1;
  first.state = triage::db::OutboxState::sent;
  first.receipt = json_text({{"sink", "x"}, {"policy", body(box.sent[0])["policy"]}}, -1);
  first.body.clear();
  first.changed_at = at(10s);
  second.id = 2;
  rows = {second, first};
  Box later;
  restore_policy(later.policy, rows);
  later.waiting = box.waiting;
  later.plan(change("sent"), at(30s));
  later.plan(change("sent", "closed", 2), at(31s));        // the same diagnosis
  later.plan(change("again"), at(31s));                   // the same cause and job
  CHECK(later.waiting.size() == 1);
  Json sharper = incident("waits");
  sharper["job"] = "other job";
  sharper["kind"] = "gpu.oom.limit";
  later.plan(alert("updated", 2, sharper), at(25s));
  REQUIRE(later.waiting.size() == 1);
  CHECK(later.waiting[0].revision == 2);
}

TEST_CASE("memory of the policy is bounded") {
  AlertConfig with = config();
  with.repeat_interval = 60s;
  Box box(with);
  for (int i = 0; i < 3000; ++i) box.policy.plan(change("i" + std::to_string(i), "opened", 1, "job" + std::to_string(i)), {}, at(i * 600s));
  CHECK(box.policy.remembered() < 2100);   // of two weeks
}

TEST_CASE("random changes, silences and restarts: nobody is told the same twice, and what is not held back is told") {
  const std::vector<std::string> kinds = {"gpu.oom.capacity", "nccl.timeout", "gpu.xid.79", "num.nan"}, jobs = {"llama", "qwen", "mistral"};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); };
    AlertConfig with = config();
    with.routes[0].sinks = {"chat", "bot", "pager"};
    Box box(with);
    std::vector<Alert> opened;
    std::chrono::seconds clock = 0s;
    triage::db::Silence silence;
    silence.id = 1;
    silence.job = "mistral";
    silence.starts_at = noon();
    for (int i = 0; i < 60; ++i) {
      clock += std::chrono::seconds(pick(12));
      box.send(at(clock));
      const std::size_t what = pick(10);
      if (what < 5 || opened.empty()) {
        opened.push_back(change("i" + std::to_string(opened.size()), "opened", 1, jobs[pick(3)], kinds[pick(4)], at(clock)));
        box.plan(opened.back(), at(clock), silence_check({silence}));
      } else if (what < 8) {
        Alert& one = opened[pick(opened.size())];
        ++one.revision;
        one.event = pick(3) == 0 ? "closed" : "updated";
        if (pick(2) == 0) one.incident_json["summary"] = "news " + std::to_string(i);
        box.plan(one, at(clock), silence_check({silence}));
      } else if (what == 8) {
        silence.ends_at = at(clock + 30s);
        box.apply(box.policy.recheck(silence_check({silence}), at(clock)));
      } else {                                            // a restart: the outbox is what is left
        std::vector<triage::db::OutboxItem> rows;
        for (const auto* list : {&box.sent, &box.waiting})
          for (const AlertItem& item : *list) {
            triage::db::OutboxItem row = outbox_item(item);
            row.id = static_cast<std::int64_t>(rows.size()) + 1;
            row.changed_at = item.not_before;
            if (list == &box.sent) {
              row.state = triage::db::OutboxState::sent;
              row.receipt = json_text({{"policy", body(item)["policy"]}}, -1);
              row.body.clear();
            }
            rows.push_back(row);
          }
        box.policy = AlertPolicy(std::make_shared<AlertConfig>(with));
        restore_policy(box.policy, rows);
      }
      std::set<std::string> keys;
      for (const auto* list : {&box.sent, &box.waiting})
        for (const AlertItem& item : *list) {
          const std::string key = item.sink + "/" + item.incident + "/" + item.event + "/" + std::to_string(item.revision);
          CAPTURE(key);
          CHECK(keys.insert(key).second);
        }
    }
    box.send(at(clock + 3600s));
    for (const char* name : {"chat", "bot", "pager"})
      for (const Alert& one : opened) {
        const bool held = std::any_of(box.held.begin(), box.held.end(), [&](const HeldAlert& other) { return other.incident == one.incident; });
        bool told = false;
        for (const AlertItem& item : box.sent) {
          if (item.sink != name) continue;
          told = told || item.incident == one.incident;
          const Json json = body(item);
          for (const Json& other : json["group"]["others"]) told = told || other["incident"] == one.incident;
        }
        CAPTURE(one.incident);
        CAPTURE(std::string(name));
        CHECK((held || told));
      }
  }
}
