// What is said, the limits of each sink, and that no text of a log can do anything but be read.
#include "daemon/alert/render.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "parsers/base/text.hpp"
#include "tests/support/sample_alert.hpp"
#include "tests/support/secret_samples.hpp"

using namespace triage::daemon;
using namespace triage::tests::alerting;

namespace {

const std::string kCut = "\xe2\x80\xa6";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void each_text(const Json& json, const std::function<void(const std::string&)>& see) {
  if (json.is_string()) see(json.get<std::string>());
  if (json.is_structured())
    for (const Json& item : json) each_text(item, see);
}

Json parsed(const HttpRequest& request) {
  Json json = Json::parse(request.body, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

// Every chat sink's request for an item.
struct Rendered {
  Json slack, bot, teams, discord, pagerduty, alertmanager, webhook, command;
  std::string mail;
  std::size_t teams_bytes = 0, pagerduty_bytes = 0;
};

Rendered render(const Item& item) {
  Rendered out;
  const Delivery d = item.delivery();
  out.slack = parsed(slack_webhook_request({{"https://hooks.example/x"}}, d));
  out.bot = parsed(slack_bot_request({{"t"}, "#gpu", "https://slack.com/api", true}, d));
  const HttpRequest teams = teams_request({{"https://teams.example/x"}}, d), pagerduty = pagerduty_request({{"key"}, "https://events.example", false}, d);
  out.teams = parsed(teams);
  out.teams_bytes = teams.body.size();
  out.discord = parsed(discord_request({{"https://discord.example/api/webhooks/1/t"}}, d));
  out.pagerduty = parsed(pagerduty);
  out.pagerduty_bytes = pagerduty.body.size();
  out.alertmanager = parsed(alertmanager_request({{"http://am:9093"}, {}, {}, std::chrono::hours(4)}, d));
  out.webhook = parsed(webhook_request({{"https://hook.example"}, {"secret"}, {}}, d));
  out.command = command_input(d);
  out.mail = mail_request({"smtp://m", true, "", {}, "t@example.com", {"o@example.com"}}, d).message;
  return out;
}

std::string mail_text(const std::string& message) {
  std::string body = message.substr(message.find("\r\n\r\n") + 4), out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : body) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t value = digits.find(c);
    if (value == std::string::npos) continue;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return out;
}

void check_slack(const Json& message) {
  const std::string text = message["text"].get<std::string>();
  CHECK(text_units(text) <= 4000);
  CHECK_FALSE(contains(text, "<"));
  CHECK_FALSE(contains(text, ">"));
  REQUIRE(message["blocks"].is_array());
  CHECK(message["blocks"].size() <= 50);
  CHECK(text_units(json_text(message["blocks"], -1)) <= 13'000);
  for (const Json& block : message["blocks"]) {
    if (block["type"] == "header") {
      CHECK(block["text"]["type"] == "plain_text");
      CHECK(text_units(block["text"]["text"].get<std::string>()) <= 150);
      CHECK_FALSE(block["text"]["text"].get<std::string>().empty());
      continue;
    }
    REQUIRE(block["type"] == "rich_text");   // no mrkdwn: nothing in it is looked at for markup
    std::size_t units = 0;
    for (const Json& section : block["elements"])
      for (const Json& element : section["elements"]) {
        const bool known = element["type"] == "text" || element["type"] == "link";
        CHECK(known);
        CHECK_FALSE(element["text"].get<std::string>().empty());
        units += text_units(element["text"].get<std::string>());
        if (element["type"] == "link") CHECK(element["url"].get<std::string>().starts_with("https://triage.example.com/"));
      }
    CHECK(units <= 3000);
  }
}

void check_discord(const Json& message) {
  CHECK(message["allowed_mentions"] == Json{{"parse", Json::array()}});
  CHECK(text_units(message["content"].get<std::string>()) <= 2000);
  REQUIRE(message["embeds"].size() == 1);
  const Json& embed = message["embeds"][0];
  std::size_t all = text_units(embed["title"].get<std::string>()) + text_units(embed["description"].get<std::string>()) + text_units(embed["footer"]["text"].get<std::string>());
  CHECK(text_units(embed["title"].get<std::string>()) <= 256);
  CHECK(text_units(embed["description"].get<std::string>()) <= 4096);
  CHECK(embed["fields"].size() <= 25);
  for (const Json& field : embed["fields"]) {
    const std::string value = field["value"].get<std::string>();
    CHECK(text_units(field["name"].get<std::string>()) <= 256);
    CHECK(text_units(value) <= 1024);
    CHECK_FALSE(value.empty());
    all += text_units(field["name"].get<std::string>()) + text_units(value);
    std::size_t fences = 0;   // a block that was opened is closed, and holds no other
    for (std::size_t at = value.find("```"); at != std::string::npos; at = value.find("```", at + 3)) ++fences;
    CHECK(fences % 2 == 0);
    CHECK(fences <= 2);
  }
  CHECK(all <= 6000);
  each_text(message["embeds"], [](const std::string& text) {
    for (const char* call : {"@everyone", "@here", "<@", "<#", "<!", "<:"}) CHECK_FALSE(contains(text, call));
  });
}

void check_teams(const Json& message) {
  const Json& card = message["attachments"][0]["content"];
  CHECK_FALSE(card["msteams"].contains("entities"));
  for (const Json& block : card["body"]) {
    REQUIRE(block["type"] == "RichTextBlock");   // a TextBlock would read Markdown
    for (const Json& run : block["inlines"]) {
      CHECK(run["type"] == "TextRun");
      CHECK_FALSE(run.contains("selectAction"));
      CHECK_FALSE(contains(run["text"].get<std::string>(), "<at>"));
    }
  }
}

void check_all(const Rendered& out) {
  check_slack(out.slack);
  check_slack(out.bot);
  check_discord(out.discord);
  check_teams(out.teams);
  CHECK(out.teams_bytes <= 28 * 1024);
  CHECK(out.pagerduty_bytes <= 512 * 1024);
  CHECK(text_units(out.pagerduty["payload"]["summary"].get<std::string>()) <= 1024);
  CHECK(out.pagerduty["dedup_key"].get<std::string>().size() <= 255);
  const std::string head = out.mail.substr(0, out.mail.find("\r\n\r\n"));
  for (const char c : out.mail) CHECK((c == '\r' || c == '\n' || (c >= ' ' && c < 0x7f)));
  for (const std::string_view line : triage::parsers::split(head, '\n')) {
    CHECK(line.size() < 200);
    const bool folded = line.starts_with(' ');
    bool known = folded;
    for (const char* name : {"Date: ", "From: ", "To: ", "Subject: ", "Message-ID: ", "Auto-Submitted: ", "MIME-Version: ", "Content-Type: ", "Content-Transfer-Encoding: "}) known = known || line.starts_with(name);
    CHECK(known);
  }
}

std::vector<std::string> hostile_texts() {
  std::string every_byte, deep(5000, '['), marks;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  for (int i = 0; i < 3000; ++i) marks += "\"\\<>&`*_~|";
  return {"<!channel> <!here|x> <!everyone> <@U123|boss> <#C1> <https://evil.example|click>",
          "@here @channel @everyone @Everyone <@123456789> <@&42> <#42> <:smile:1> </cmd:1>",
          "<at>boss</at> <b>bold</b> <script>alert(1)</script> <img src=x>",
          "[click](https://evil.example) ![x](https://evil.example/x.png) # head\n> quote\n- list\n***bold*** ~~strike~~ ||spoiler||",
          "```\ncode\n``` ` `` ``` ~~~",
          "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \r\nBcc: everyone@example.com\r\n\r\n.\r\n",
          "\xe2\x80\xae" "evil\xe2\x80\xac \xe2\x81\xa6x\xe2\x81\xa9 a\xe2\x80\x8b@\xe2\x80\x8bhere",
          "{{ .Labels }} {% raw %} ${jndi:ldap://x} $(rm -rf /) `id` %s%n",
          every_byte,
          std::string("\0\0\0", 3),
          deep,
          marks,
          std::string(200'000, 'x'),
          std::string(100'000, '@'),
          std::string(100'000, '`')};
}

}  // namespace

TEST_CASE("an alert says what died, where, why, the first two fixes with numbers, and where to look") {
  Json json = incident();
  json["fixes"].push_back({{"id", "b"}, {"title", "Halve the micro batch"}, {"apply", {{{"framework", "any"}, {"set", "--micro-batch-size 1"}}}}, {"saving_bytes", nullptr}, {"basis", "RULE"}});
  json["fixes"].push_back({{"id", "c"}, {"title", "A third way"}});
  json["echoes"] = {{{"kind", "dist.peer_closed"}, {"count", 7}}};
  const AlertText text = alert_text(alert_body(alert("opened", 1, json)));
  CHECK(text.title == "gpu.oom.capacity: job llama-405b, attempt 2, rank 2");
  CHECK(contains(text.what, "asked for 2.00 GiB"));
  const std::string all = plain_text(text);
  for (const char* part : {"rank 2, node gpu-node-17, GPU 0, step 4, phase forward; train.log:123", "79.15 GiB device = 74.51 GiB allocated + 1.20 GiB free; asked for 2.00 GiB", "7 x dist.peer_closed",
                           "Fix 1: Recompute every layer", "--recompute-granularity full", "saves 22.35 GiB (18.63 to 24.21); peak then 54.15 of 79.15 GiB, fits; step time +18 to +33 %; MODELLED",
                           "Fix 2: Halve the micro batch", "--micro-batch-size 1", "https://triage.example.com/#/incidents/cec9ef5474abbf0a", "CUDA out of memory"}) {
    CAPTURE(std::string(part));
    CHECK(contains(all, part));
  }
  CHECK_FALSE(contains(all, "A third way"));
}

TEST_CASE("every sink carries the title, the first fix and the link") {
  const Rendered out = render(Item(alert()));
  check_all(out);
  for (const Json* json : {&out.slack, &out.bot, &out.teams, &out.discord, &out.pagerduty, &out.alertmanager, &out.webhook, &out.command}) {
    std::string all;
    each_text(*json, [&](const std::string& text) { all += text + "\n"; });
    std::erase(all, '\\');   // Discord's escapes
    CAPTURE(all);
    CHECK(contains(all, "gpu.oom.capacity: job llama-405b, attempt 2, rank 2"));
    CHECK(contains(all, "--recompute-granularity full"));
    CHECK(contains(all, "https://triage.example.com/#/incidents/cec9ef5474abbf0a"));
  }
  const std::string mail = mail_text(out.mail);
  CHECK(contains(mail, "gpu.oom.capacity: job llama-405b, attempt 2, rank 2"));
  CHECK(contains(mail, "https://triage.example.com/#/incidents/cec9ef5474abbf0a"));
}

TEST_CASE("a later run is told in words") {
  Alert next = alert("next_run", 3);
  next.next_run = {{"attempt", 3}, {"helped", true}, {"settings", "micro-batch-size 4 -> 2"}, {"fixes", {"micro_batch.halve"}}};
  const std::string text = plain_text(alert_text(alert_body(next)));
  CHECK(contains(text, "[next run]"));
  CHECK(contains(text, "attempt 3 passed the step at which this one failed, with micro-batch-size 4 -> 2"));
}

TEST_CASE("whatever the log says: valid JSON, no mention, a visible cut, every limit") {
  for (const std::string& hostile : hostile_texts()) {
    CAPTURE(hostile.substr(0, 80));
    Json json = incident();
    json["root"]["text"] = hostile;
    json["root"]["node"] = hostile;
    json["root"]["source"] = hostile;
    json["summary"] = hostile;
    json["job"] = hostile;
    json["kind"] = hostile;
    json["reasons"] = {hostile};
    json["first_action"] = hostile;
    json["plan"] = hostile;
    for (int i = 0; i < 2; ++i) json["fixes"].push_back(json["fixes"][0]);
    json["fixes"][0]["title"] = hostile;
    json["fixes"][0]["apply"][0]["set"] = hostile;
    json["fixes"][1]["basis"] = hostile;
    Alert made = alert("updated", 2, json);
    Item item(made);
    item.body["group"] = {{"others", Json::array()}};
    for (int i = 0; i < 60; ++i) item.body["group"]["others"].push_back({{"incident", hostile}, {"job", hostile}, {"node", hostile}, {"summary", hostile}});
    const Rendered out = render(item);
    check_all(out);
    if (hostile.size() > 50'000) {
      for (const Json* sink : {&out.slack, &out.teams, &out.discord}) {
        bool marked = false;
        each_text(*sink, [&](const std::string& text) { marked = marked || contains(text, kCut); });
        CHECK(marked);
      }
      CHECK(contains(mail_text(out.mail), kCut));
      CHECK(contains(out.pagerduty["payload"]["summary"].get<std::string>(), kCut));
    }
  }
}

TEST_CASE("random texts keep every limit") {
  std::mt19937 random(20261201);
  const std::vector<std::string> pieces = {"@here", "<!channel>", "```", "\\", "\"", "<@1>", "*", "\n", "\xf0\x9f\x92\xa5", "\xc3\xa4", "\xff", "word ", "https://x.example/", "[a](b)", "\x1b[1m", "\xe2\x80\xae"};
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const auto some = [&] {
      std::string out;
      const std::size_t count = std::uniform_int_distribution<std::size_t>(0, 1 + (round % 10 == 0 ? 3000 : 60))(random);
      for (std::size_t i = 0; i < count; ++i) out += pieces[std::uniform_int_distribution<std::size_t>(0, pieces.size() - 1)(random)];
      return out;
    };
    Json json = incident("cec9ef5474abbf0a", some());
    json["summary"] = some();
    json["job"] = some();
    json["fixes"][0]["title"] = some();
    json["fixes"][0]["apply"][0]["set"] = some();
    check_all(render(Item(alert("opened", 1, json))));
  }
}

TEST_CASE("no secret of the list comes through any sink, wherever it stands") {
  for (const SecretSample& sample : secret_samples()) {
    CAPTURE(sample.shape);
    CAPTURE(sample.text);
    Json json = incident("cec9ef5474abbf0a", "raise ValueError: " + sample.text);
    json["summary"] = sample.text;
    json["reasons"] = {sample.text};
    json["fixes"][0]["apply"][0]["set"] = sample.text;
    json["findings"] = {{{"rule", "x"}, {"captures", {{"text", sample.text}}}}};
    json["config"] = {{"model", {{"value", sample.text}}}};
    const Item item(alert("opened", 1, json));
    const Rendered out = render(item);
    std::string all = item.item.body + mail_text(out.mail);
    for (const Json* sink : {&out.slack, &out.bot, &out.teams, &out.discord, &out.pagerduty, &out.alertmanager, &out.webhook, &out.command}) {
      each_text(*sink, [&](const std::string& text) { all += text + "\n"; });
    }
    const std::string escaped = json_text(Json(sample.hidden), -1);
    CHECK_FALSE(contains(all, sample.hidden));
    CHECK_FALSE(contains(all, escaped.substr(1, escaped.size() - 2)));
    std::erase(all, '\\');
    CHECK_FALSE(contains(all, sample.hidden));
  }
}

TEST_CASE("a body of thousands of findings is kept small, and says what was left out") {
  Json json = incident();
  json["findings"] = Json::array();
  for (int i = 0; i < 20'000; ++i) json["findings"].push_back({{"rule", "torch.cuda.oom"}, {"line", i}, {"captures", {{"text", std::string(100, 'y')}}}});
  json["config"] = Json::object();
  for (int i = 0; i < 2'000; ++i) json["config"]["key" + std::to_string(i)] = {{"value", std::string(5000, 'z')}};
  const Alert made = alert("opened", 1, json);
  CHECK(json_text(alert_body(made), -1).size() <= kAlertBodyBytes);
  CHECK(made.incident_json["cut"]["findings"] == 19'950);
  CHECK(made.incident_json["cut"]["config"] == 1'800);
}

TEST_CASE("cuts: the mark counts, characters stay whole, the escaped form fits") {
  CHECK(cut_text("short", 5) == "short");
  CHECK(cut_text("0123456789012345678901234567890123456789", 30) == "01234567890123" + kCut + " [cut: 26 more]");
  for (std::size_t units = 0; units < 60; ++units) {
    std::string emoji;
    for (int i = 0; i < 100; ++i) emoji += "\xf0\x9f\x92\xa5\xc3\xa4";
    const std::string cut = cut_text(emoji, units);
    CHECK(text_units(cut) <= units);
    CHECK(triage::parsers::is_utf8(cut));
    const std::string escaped = cut_escaped(std::string(500, '*') + emoji, units, escape_discord);
    CHECK(text_units(escaped) <= std::max<std::size_t>(units, 0));
  }
  CHECK(clean_line("a\tb\r\nc \x1b[31md\x1b[0m\xe2\x80\xae" "e\xff") == "a b c de\xef\xbf\xbd");
}

TEST_CASE("severities by kind, links of any id") {
  CHECK(default_severity("gpu.oom.capacity") == "critical");
  CHECK(default_severity("sched.time_limit") == "warning");
  CHECK(default_severity("user.exception") == "warning");
  CHECK(default_severity("none") == "info");
  Json json = incident("a b/../?x#y");
  CHECK(make_alert(json, "opened", 1, "", noon(), {{}, "https://t.example/"}).link == "https://t.example/api/v1/incidents/a%20b%2F..%2F%3Fx%23y");
}

TEST_CASE("hosts are masked everywhere when that is chosen") {
  Json json = incident("x1", "gpu-node-17: Xid 79, gpu-node-17.corp.example.com fell off the bus");
  MaskOptions mask;
  mask.hosts = true;
  const Alert made = make_alert(json, "opened", 1, "", noon(), {mask, ""});
  CHECK_FALSE(contains(json_text(alert_body(made), -1), "gpu-node-17"));
  CHECK(made.node.starts_with("[masked host-"));
}
