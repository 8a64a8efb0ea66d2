// Each sink against a server that answers as the real one does.
#include "daemon/alert/sink.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "daemon/alert/hash.hpp"
#include "tests/support/fake_http.hpp"
#include "tests/support/fake_smtp.hpp"
#include "tests/support/sample_alert.hpp"

using namespace triage::daemon;
using namespace triage::tests;
using namespace triage::tests::alerting;
using namespace std::chrono_literals;
using Kind = Outcome::Kind;
using Cut = PeerAnswer::Cut;

namespace {

ClientSettings quick() {
  ClientSettings settings;
  settings.connect_timeout = 500ms;
  settings.timeout = 600ms;
  return settings;
}

SinkConfig config_of(SinkSettings settings) {
  SinkConfig out;
  out.name = "chat";
  out.settings = std::move(settings);
  return out;
}

Outcome send(SinkSettings settings, const Item& item) { return make_sink(config_of(std::move(settings)))->send(item.delivery(), HttpClient(quick()), {}); }

Json sent_json(const FakeHttp& peer, std::size_t index = 0) {
  REQUIRE(peer.requests().size() > index);
  return Json::parse(peer.requests()[index].body);
}

PeerAnswer answer(int status, const std::string& body = "", std::vector<std::pair<std::string, std::string>> headers = {}) { return {status, body, std::move(headers), 0ms, Cut::none}; }

constexpr bool kIdempotent = true, kOnce = false;

}  // namespace

TEST_CASE("every sink that speaks HTTP: limits, trouble, refusal, doubt") {
  struct Peer {
    const char* name;
    SinkSettings (*settings)(const std::string& url);
    bool idempotent;
  };
  const Peer peers[] = {
      {"slack webhook", [](const std::string& url) -> SinkSettings { return SlackWebhookSettings{{url}}; }, kOnce},
      {"slack bot", [](const std::string& url) -> SinkSettings { return SlackBotSettings{{"t"}, "#gpu", url, true}; }, kOnce},
      {"webhook", [](const std::string& url) -> SinkSettings { return WebhookSettings{{url}, {}, {}}; }, kIdempotent},
      {"alertmanager", [](const std::string& url) -> SinkSettings { return AlertmanagerSettings{{url}, {}, {}, 4h}; }, kIdempotent},
      {"pagerduty", [](const std::string& url) -> SinkSettings { return PagerDutySettings{{"k"}, url, false}; }, kIdempotent},
      {"teams", [](const std::string& url) -> SinkSettings { return TeamsSettings{{url}}; }, kOnce},
      {"discord", [](const std::string& url) -> SinkSettings { return DiscordSettings{{url}}; }, kOnce},
  };
  for (const Peer& peer : peers) {
    CAPTURE(std::string(peer.name));
    const auto outcome = [&](PeerAnswer with) {
      FakeHttp server(with);
      return send(peer.settings(server.url("/hook")), Item(alert()));
    };
    Outcome limited = outcome(answer(429, "slow down", {{"Retry-After", "30"}}));
    CHECK(limited.kind == Kind::retry);
    REQUIRE(limited.after);
    CHECK(*limited.after == 30s);
    CHECK(limited.whole_sink);
    for (const int status : {500, 502, 503, 504, 408}) {
      CAPTURE(status);
      CHECK(outcome(answer(status, "trouble")).kind == Kind::retry);
    }
    for (const int status : {301, 400, 401, 403, 404, 410, 413}) {
      CAPTURE(status);
      const Outcome refused = outcome(answer(status, "no such thing"));
      CHECK(refused.kind == Kind::dead);
      CHECK(refused.why.find("HTTP " + std::to_string(status)) != std::string::npos);
    }
    for (const PeerAnswer& lost : {PeerAnswer{200, "ok", {}, 5000ms, Cut::none}, PeerAnswer{200, "ok", {}, 0ms, Cut::before_answer}})
      CHECK(outcome(lost).kind == (peer.idempotent ? Kind::retry : Kind::doubt));
    int port = 0;
    {
      FakeHttp gone(answer(200));
      port = gone.port();
    }
    CHECK(send(peer.settings("http://127.0.0.1:" + std::to_string(port) + "/hook"), Item(alert())).kind == Kind::retry);
  }
}

TEST_CASE("a certificate that nobody signed: not told, and tried again once it is mended") {
  const Identity identity = make_identity("IP:127.0.0.1");
  FakeHttp peer([](const PeerRequest&, std::size_t) { return PeerAnswer{}; }, &identity);
  const Outcome outcome = send(SlackWebhookSettings{{peer.url()}}, Item(alert()));
  CHECK(outcome.kind == Kind::retry);
  CHECK(outcome.why.find("certificate") != std::string::npos);
  CHECK(peer.requests().empty());
}

TEST_CASE("Slack webhook: ok, and the word of a refusal") {
  FakeHttp good(answer(200, "ok"));
  CHECK(send(SlackWebhookSettings{{good.url("/services/T/B/x")}}, Item(alert())).kind == Kind::sent);
  CHECK(sent_json(good)["blocks"][0]["type"] == "header");
  FakeHttp archived(answer(410, "channel_is_archived"));
  const Outcome refused = send(SlackWebhookSettings{{archived.url("/services/T/B/x")}}, Item(alert()));
  CHECK(refused.kind == Kind::dead);
  CHECK(refused.why == "HTTP 410: channel_is_archived");
}

TEST_CASE("Slack bot: posts, changes its message, answers in its thread") {
  const std::string posted = R"({"ok":true,"channel":"C024BE91L","ts":"1700000000.000100","message":{"text":"x"}})";
  FakeHttp peer(answer(200, posted));
  const SlackBotSettings bot{{"xo" "xb-secret"}, "#gpu-alerts", peer.url("/api"), true};
  const Outcome first = send(bot, Item(alert()));
  REQUIRE(first.kind == Kind::sent);
  CHECK(peer.requests()[0].target == "/api/chat.postMessage");
  CHECK(peer.requests()[0].headers.at("authorization") == "Bearer xo" "xb-secret");
  CHECK(sent_json(peer)["channel"] == "#gpu-alerts");
  CHECK(sent_json(peer)["parse"] == "none");
  CHECK(sent_json(peer)["link_names"] == false);

  Item update(alert("updated", 2), first.receipt);
  CHECK(send(bot, update).kind == Kind::sent);
  CHECK(peer.requests()[1].target == "/api/chat.update");
  CHECK(sent_json(peer, 1)["channel"] == "C024BE91L");
  CHECK(sent_json(peer, 1)["ts"] == "1700000000.000100");

  update.own = false;   // told with others: an answer, not a change
  CHECK(send(bot, update).kind == Kind::sent);
  CHECK(peer.requests()[2].target == "/api/chat.postMessage");
  CHECK(sent_json(peer, 2)["thread_ts"] == "1700000000.000100");

  CHECK(send(bot, Item(alert("next_run", 2), first.receipt)).kind == Kind::sent);
  CHECK(sent_json(peer, 3)["thread_ts"] == "1700000000.000100");

  SlackBotSettings threads = bot;
  threads.in_place = false;
  CHECK(send(threads, Item(alert("updated", 2), first.receipt)).kind == Kind::sent);
  CHECK(sent_json(peer, 4)["thread_ts"] == "1700000000.000100");
}

TEST_CASE("Slack bot: the errors that stand behind 200") {
  struct Row {
    const char* error;
    Kind want;
    bool gone;
  };
  const Row rows[] = {{"ratelimited", Kind::retry, false},   {"internal_error", Kind::doubt, false}, {"fatal_error", Kind::doubt, false},      {"service_unavailable", Kind::retry, false},
                      {"invalid_auth", Kind::dead, false},   {"token_revoked", Kind::dead, false},   {"channel_not_found", Kind::dead, false}, {"not_in_channel", Kind::dead, false},
                      {"is_archived", Kind::dead, false},    {"msg_too_long", Kind::dead, false},    {"invalid_blocks", Kind::dead, false},    {"message_not_found", Kind::retry, true},
                      {"cant_update_message", Kind::retry, true}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.error));
    const Outcome outcome = read_slack_bot({200, {}, std::string(R"({"ok":false,"error":")") + row.error + "\"}", false}, noon());
    CHECK(outcome.kind == row.want);
    CHECK(outcome.gone == row.gone);
    CHECK(outcome.why.find(row.error) != std::string::npos);
  }
  for (const char* nonsense : {"", "<html>", "[]", "{\"ok\":\"yes\"}", "null"}) CHECK(read_slack_bot({200, {}, nonsense, false}, noon()).kind == Kind::doubt);
  std::string deep(100'000, '[');
  CHECK(read_slack_bot({200, {}, deep, false}, noon()).kind == Kind::doubt);
}

TEST_CASE("webhook: versioned, signed over time and body, with a key that stays the same for every try") {
  FakeHttp peer(answer(204));
  const WebhookSettings settings{{peer.url("/in")}, {"the secret"}, {{"Authorization", {"Bearer abc"}}}};
  CHECK(send(settings, Item(alert())).kind == Kind::sent);
  CHECK(send(settings, Item(alert())).kind == Kind::sent);
  const PeerRequest request = peer.requests()[0];
  CHECK(request.headers.at("authorization") == "Bearer abc");
  CHECK(request.headers.at("x-triage-event") == "opened");
  CHECK(request.headers.at("idempotency-key").size() == 32);
  CHECK(request.headers.at("idempotency-key") == peer.requests()[1].headers.at("idempotency-key"));
  const std::string time = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(noon().time_since_epoch()).count());
  CHECK(request.headers.at("x-triage-signature") == "t=" + time + ",v1=" + hmac_sha256_hex("the secret", time + "." + request.body));
  const Json json = Json::parse(request.body);
  CHECK(json["type"] == "triage.incident");
  CHECK(json["version"] == 1);
  CHECK(json["incident"]["kind"] == "gpu.oom.capacity");
  CHECK(json["key"] == request.headers.at("idempotency-key"));
  CHECK_FALSE(json.contains("policy"));
  // RFC 4231, test case 2.
  CHECK(hmac_sha256_hex("Jefe", "what do ya want for nothing?") == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("Alertmanager: labels stay, the end moves when a later run passes") {
  FakeHttp peer(answer(200));
  const AlertmanagerSettings settings{{peer.url("")}, {}, {{"cluster", "eu1"}}, 4h};
  CHECK(send(settings, Item(alert())).kind == Kind::sent);
  Alert next = alert("next_run", 2);
  next.next_run = {{"attempt", 3}, {"helped", true}};
  CHECK(send(settings, Item(next)).kind == Kind::sent);
  CHECK(peer.requests()[0].target == "/api/v2/alerts");
  const Json first = sent_json(peer)[0], last = sent_json(peer, 1)[0];
  CHECK(first["labels"] == last["labels"]);
  CHECK(first["labels"]["alertname"] == "TrainingJobFailed");
  CHECK(first["labels"]["cluster"] == "eu1");
  CHECK(first["labels"]["training_job"] == "llama-405b");
  CHECK(first["labels"]["severity"] == "critical");
  CHECK(first["startsAt"] == "2026-12-01T12:00:00Z");
  CHECK(first["endsAt"] == "2026-12-01T16:00:00Z");
  CHECK(last["endsAt"] == "2026-12-01T12:00:00Z");
  CHECK(first["generatorURL"].get<std::string>().starts_with("https://triage.example.com/"));
}

TEST_CASE("PagerDuty: trigger, update, resolve with one key") {
  FakeHttp peer(answer(202, R"({"status":"success","message":"Event processed","dedup_key":"x"})"));
  const PagerDutySettings settings{{"routing"}, peer.url("/v2/enqueue"), false};
  CHECK(send(settings, Item(alert())).kind == Kind::sent);
  CHECK(send(settings, Item(alert("closed", 2))).kind == Kind::sent);
  Alert next = alert("next_run", 2);
  next.next_run = {{"attempt", 3}, {"helped", true}};
  CHECK(send(settings, Item(next)).kind == Kind::sent);
  next.next_run["helped"] = false;
  CHECK(send(settings, Item(next)).kind == Kind::sent);
  CHECK(send(settings, Item(alert("acknowledged", 2))).kind == Kind::sent);
  CHECK(sent_json(peer)["event_action"] == "trigger");
  CHECK(sent_json(peer)["routing_key"] == "routing");
  CHECK(sent_json(peer)["payload"]["severity"] == "critical");
  CHECK(sent_json(peer)["payload"]["source"] == "gpu-node-17");
  CHECK(sent_json(peer)["payload"]["class"] == "gpu.oom.capacity");
  CHECK(sent_json(peer, 1)["event_action"] == "trigger");
  CHECK(sent_json(peer, 2)["event_action"] == "resolve");
  CHECK(sent_json(peer, 3)["event_action"] == "trigger");
  CHECK(sent_json(peer, 4)["event_action"] == "acknowledge");
  for (std::size_t i = 0; i < 5; ++i) CHECK(sent_json(peer, i)["dedup_key"] == "triage-cec9ef5474abbf0a");
  PagerDutySettings closing = settings;
  closing.resolve_on_close = true;
  CHECK(send(closing, Item(alert("closed", 2))).kind == Kind::sent);
  CHECK(sent_json(peer, 5)["event_action"] == "resolve");
}

TEST_CASE("Teams: a card; Discord: a message that is changed later") {
  FakeHttp teams(answer(202));
  CHECK(send(TeamsSettings{{teams.url("/workflows/x")}}, Item(alert())).kind == Kind::sent);
  CHECK(sent_json(teams)["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive");

  FakeHttp discord(answer(200, R"({"id":"1234567890123456789","content":"x"})"));
  const DiscordSettings settings{{discord.url("/api/webhooks/1/token?thread_id=5")}};
  const Outcome first = send(settings, Item(alert()));
  REQUIRE(first.kind == Kind::sent);
  CHECK(discord.requests()[0].target == "/api/webhooks/1/token?wait=true&thread_id=5");
  CHECK(send(settings, Item(alert("updated", 2), first.receipt)).kind == Kind::sent);
  CHECK(discord.requests()[1].method == "PATCH");
  CHECK(discord.requests()[1].target == "/api/webhooks/1/token/messages/1234567890123456789?thread_id=5");
  CHECK(send(settings, Item(alert("updated", 2), R"({"id":"1/../../x"})")).kind == Kind::sent);   // no id: a new message
  CHECK(discord.requests()[2].method == "POST");

  const Outcome limited = read_discord({429, {}, R"({"message":"You are being rate limited.","retry_after":1.336,"global":false})", false}, noon());
  CHECK(limited.kind == Kind::retry);
  CHECK(*limited.after == 2s);
  const Outcome gone = read_discord({404, {}, R"({"message":"Unknown Message","code":10008})", false}, noon());
  CHECK(gone.kind == Kind::retry);
  CHECK(gone.gone);
  CHECK(read_discord({404, {}, R"({"message":"Unknown Webhook","code":10015})", false}, noon()).kind == Kind::dead);
}

TEST_CASE("mail: taken, later, refused, in doubt; a change answers the first") {
  const auto settings = [](const FakeSmtp& peer) { return MailSettings{peer.url(), false, "", {}, "triage@example.com", {"ops@example.com"}}; };
  FakeSmtp good({});
  const Outcome first = send(settings(good), Item(alert()));
  REQUIRE(first.kind == Kind::sent);
  CHECK(send(settings(good), Item(alert("closed", 2), first.receipt)).kind == Kind::sent);
  REQUIRE(good.mails().size() == 2);
  const std::string one = good.mails()[0].message, two = good.mails()[1].message;
  const std::size_t at = one.find("Message-ID: <") + 13;
  const std::string id = one.substr(at, one.find('>', at) - at);
  CHECK(two.find("In-Reply-To: <" + id + ">") != std::string::npos);
  CHECK(two.find("Message-ID: <" + id + ">") == std::string::npos);
  FakeSmtp grey({{{"RCPT", "451 4.7.1 greylisted"}}, false, false, 0ms});
  CHECK(send(settings(grey), Item(alert())).kind == Kind::retry);
  FakeSmtp refusing({{{"END", "554 5.7.1 spam"}}, false, false, 0ms});
  CHECK(send(settings(refusing), Item(alert())).kind == Kind::dead);
  FakeSmtp cut({{}, false, true, 0ms});
  CHECK(send(settings(cut), Item(alert())).kind == Kind::doubt);
  FakeSmtp slow({{}, false, false, 5000ms});
  CHECK(send(settings(slow), Item(alert())).kind == Kind::doubt);
}

TEST_CASE("command: the alert on its input, no shell, a bounded time and output") {
  const PeerFolder folder;
  const auto script = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.write(name, "#!/bin/sh\n" + text);
    ::chmod(path.c_str(), 0700);
    return path;
  };
  const std::string out = (folder.path() / "out").string();
  const std::string hostile = "$(touch " + (folder.path() / "pwned").string() + ") `id` ; rm -rf /";
  const Item item(alert("opened", 1, incident("id1", hostile)));
  SUBCASE("told") {
    const std::string path = script("tell", "cat > " + out + "; echo \"$1|$2\" >> " + out + "; env >> " + out);
    CHECK(send(CommandSettings{{path, "--to", "a; b $HOME"}, 5000ms}, item).kind == Kind::sent);
    const std::string text = [&] {
      std::ifstream in(out);
      return std::string(std::istreambuf_iterator<char>(in), {});
    }();
    const Json json = Json::parse(text.substr(0, text.find('\n')));
    CHECK(json["incident"]["root"]["text"] == hostile);
    CHECK(text.find("--to|a; b $HOME") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "pwned"));
    CHECK(text.find("TRIAGE_SECRET") == std::string::npos);
  }
  SUBCASE("it fails, dies, is not there") {
    Outcome failed = send(CommandSettings{{script("fail", "echo went wrong password=hunter2 >&2; exit 3")}, 5000ms}, item);
    CHECK(failed.kind == Kind::retry);
    CHECK(failed.why.find("status 3: went wrong") != std::string::npos);
    CHECK(failed.why.find("hunter2") == std::string::npos);
    CHECK(send(CommandSettings{{script("die", "kill -9 $$")}, 5000ms}, item).kind == Kind::retry);
    CHECK(send(CommandSettings{{(folder.path() / "none").string()}, 5000ms}, item).kind == Kind::retry);
  }
  SUBCASE("it does not read, and prints without end") {
    CHECK(send(CommandSettings{{script("deaf", "exit 0")}, 5000ms}, item).kind == Kind::sent);
    CHECK(send(CommandSettings{{script("loud", "head -c 5000000 /dev/zero | tr '\\0' x; exit 0")}, 5000ms}, item).kind == Kind::sent);
  }
  SUBCASE("it never ends: killed with all that it started") {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome late = send(CommandSettings{{script("slow", "sleep 100 & echo $! > " + out + "; wait")}, 300ms}, item);
    CHECK(late.kind == Kind::doubt);
    CHECK(std::chrono::steady_clock::now() - begin < 3s);
    std::ifstream in(out);
    int child = 0;
    in >> child;
    REQUIRE(child > 0);
    bool gone = false;   // killed; until its new parent reaps it, /proc says zombie
    for (int i = 0; i < 200 && !gone; ++i) {
      std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
      std::string line;
      gone = !std::getline(stat, line) || line.find(") Z") != std::string::npos;
      if (!gone) std::this_thread::sleep_for(10ms);
    }
    CHECK(gone);
  }
  SUBCASE("the service stops") {
    std::stop_source stop;
    stop.request_stop();
    const auto begin = std::chrono::steady_clock::now();
    const auto sink = make_sink(config_of(CommandSettings{{script("slow", "sleep 100")}, 60'000ms}));
    CHECK(sink->send(item.delivery(), HttpClient(quick()), stop.get_token()).kind == Kind::doubt);
    CHECK(std::chrono::steady_clock::now() - begin < 2s);
  }
}

TEST_CASE("what a server says never carries its own secrets into our errors") {
  const std::string token = std::string("gh") + "p_" + std::string(36, 'a');
  const Outcome outcome = outcome_of_status({403, {}, "token " + token + " is not allowed\x1b[31m\n", false}, noon());
  CHECK(outcome.why.find(token) == std::string::npos);
  CHECK(outcome.why.find('\x1b') == std::string::npos);
}
