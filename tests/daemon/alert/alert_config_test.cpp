#include "daemon/alert/alert_config.hpp"

#include <doctest/doctest.h>

#include "parsers/base/yaml_text.hpp"

using namespace triage::daemon;
using namespace std::chrono_literals;
using triage::parsers::Error;
using triage::parsers::ErrorCode;

namespace {

struct Read {
  AlertConfig config;
  std::vector<Error> faults;
};

Read read(const std::string& text) {
  const auto node = triage::parsers::read_yaml(text, "triaged.yaml");
  REQUIRE(node.ok());
  Read out;
  out.config = read_alert_config(*node, out.faults, [](std::string_view kind, const std::string& name) -> triage::parsers::Result<std::string> {
    if (name == "MISSING") return Error(ErrorCode::not_found, "the environment variable MISSING is not set");
    return std::string("https://secret.example/") + std::string(kind) + "/" + name + "\n";
  });
  return out;
}

}  // namespace

TEST_CASE("a whole section: sinks, routes, times, secrets from elsewhere") {
  const Read out = read(R"(
link: https://triage.example.com/#/i/{id}
group_wait: 30s
group_interval: 2m
repeat_interval: 12h
give_up_after: 2d
group_by: [kind, job]
mask: {hosts: true, host_suffixes: [corp.example.com], words: [secret project]}
client: {timeout: 5s, connect_timeout: 500ms}
severities:
  - {kind: user.exception, severity: critical}
sinks:
  chat: {type: slack_webhook, url: 'env:SLACK'}
  bot: {type: slack_bot, token: 'file:token', channel: '#gpu', updates: thread}
  hook: {type: webhook, url: 'http://collector:8080/x', secret: 'env:HMAC', headers: {Authorization: 'env:AUTH'}, every: 0s}
  am: {type: alertmanager, url: 'http://alertmanager:9093/', labels: {cluster: eu1}, hold: 8h}
  pager: {type: pagerduty, routing_key: 'env:PD', resolve: closed}
  teams: {type: teams, url: 'env:TEAMS', repeat_in_doubt: true}
  discord: {type: discord, url: 'env:DISCORD'}
  mail: {type: mail, url: 'smtp://mail.example.com:587', user: u, password: 'env:PW', from: triage@example.com, to: [a@example.com, b@example.com]}
  program: {type: command, argv: [/usr/bin/tell, --now], timeout: 3s}
routes:
  - {job: 'debug-*', mute: true}
  - {kind: [gpu.xid, host.oom], severity: critical, sinks: [pager, chat], continue: true, group_wait: 0s}
  - {sinks: [chat]}
inhibit:
  - {echo: nccl, of: gpu, equal: [job], within: 5m}
)");
  for (const Error& fault : out.faults) MESSAGE(fault.message());
  CHECK(out.faults.empty());
  const AlertConfig& c = out.config;
  CHECK(c.group_wait == 30s);
  CHECK(c.give_up_after == 48h);
  CHECK(c.mask.hosts);
  CHECK(c.client.connect_timeout == 500ms);
  REQUIRE(c.sinks.size() == 9);
  CHECK(std::get<SlackWebhookSettings>(c.sink("chat")->settings).url.value == "https://secret.example/env/SLACK");
  CHECK_FALSE(c.sink("bot")->in_place());
  CHECK(c.sink("bot")->channel() == "#gpu");
  CHECK(c.sink("hook")->every == 0ms);
  CHECK(std::get<AlertmanagerSettings>(c.sink("am")->settings).url.value == "http://alertmanager:9093");
  CHECK(std::get<PagerDutySettings>(c.sink("pager")->settings).resolve_on_close);
  CHECK(std::get<CommandSettings>(c.sink("program")->settings).argv == std::vector<std::string>{"/usr/bin/tell", "--now"});
  REQUIRE(c.routes.size() == 3);
  CHECK(c.routes[1].go_on);
  CHECK(*c.routes[1].group_wait == 0s);
  CHECK(c.inhibit.size() == 1);
  CHECK(c.severity_of("user.exception") == "critical");
  CHECK(c.severity_of("gpu.oom").empty());
  CHECK(idempotent_sinks(c) == std::vector<std::string>{"hook", "am", "pager", "teams"});
  for (const SinkConfig& sink : c.sinks) CHECK_FALSE(sink.type().empty());
  CHECK(c.sink("mail")->type() == "mail");
  CHECK(c.sink("am")->type() == "alertmanager");
}

TEST_CASE("nothing written: no sinks, usual inhibition; sinks without routes: everything to all") {
  CHECK(read("").faults.empty());
  CHECK(read("").config.sinks.empty());
  CHECK_FALSE(read("").config.inhibit.empty());
  const Read out = read("sinks: {a: {type: teams, url: https://x.example}, b: {type: discord, url: https://x.example}}");
  REQUIRE(out.config.routes.size() == 1);
  CHECK(out.config.routes[0].sinks == std::vector<std::string>{"a", "b"});
}

TEST_CASE("each fault is told with its place and the way out, and none repeats a secret") {
  struct Row {
    const char *text, *want, *help;
  };
  const Row rows[] = {
      {"group_wiat: 10s", "has no key 'group_wiat'", "group_wait"},
      {"group_wait: 10", "has to be a time from 0s to 1h", "10s"},
      {"group_wait: 10h", "has to be a time from 0s to 1h", ""},
      {"group_wait: 500ms", "in steps of 1s", ""},
      {"group_by: [fingerprnt]", "cannot hold 'fingerprnt'", "fingerprint"},
      {"link: 'ftp://x'", "cannot begin with ftp://", ""},
      {"sinks: {a: {type: slak_webhook, url: https://x}}", "cannot be 'slak_webhook'", "slack_webhook"},
      {"sinks: {a: {url: https://x}}", "has no type", ""},
      {"sinks: {a: {type: slack_webhook}}", "url is missing", ""},
      {"sinks: {a: {type: slack_webhook, url: 'env:MISSING'}}", "MISSING is not set", ""},
      {"sinks: {a: {type: slack_webhook, url: 'http://hooks.slack.com/T0KEN'}}", "not encrypted", "https://"},
      {"sinks: {a: {type: webhook, url: 'https://user:T0KEN@x.example/'}}", "holds a login", "header"},
      {"sinks: {a: {type: webhook, url: 'gopher://x/T0KEN'}}", "cannot begin with gopher://", ""},
      {"sinks: {a: {type: webhook, url: 'T0KEN'}}", "is not a URL", ""},
      {"sinks: {a: {type: webhook, url: https://x, headers: {'X Y': a}}}", "not the name of a header", ""},
      {"sinks: {a: {type: slack_bot, token: x}}", "has no channel", "channel"},
      {"sinks: {a: {type: mail, url: 'smtp://m', from: me, to: [a@b.c]}}", "from is not a mail address", ""},
      {"sinks: {a: {type: mail, url: 'smtp://m', from: a@b.c, to: ['a@b.c, Bcc: x']}}", "is not a mail address", ""},
      {"sinks: {a: {type: mail, url: 'smtp://m', starttls: false, user: u, password: T0KEN, from: a@b.c, to: [a@b.c]}}", "without encryption", "starttls"},
      {"sinks: {a: {type: command, argv: [tell]}}", "whole path", ""},
      {"sinks: {'a b': {type: teams, url: https://x}}", "a sink is named by", ""},
      {"sinks: {a: {type: teams, url: https://x, chanel: y}}", "has no key 'chanel'", ""},
      {"sinks: {a: {type: teams, url: https://x}}\nroutes: [{sinks: [b]}]", "no sink 'b'", ""},
      {"sinks: {a: {type: teams, url: https://x}}\nroutes: [{kind: gpu}]", "a route has no sinks", "mute"},
      {"sinks: {a: {type: teams, url: https://x}}\nroutes: [{severity: kritical, sinks: [a]}]", "no severity 'kritical'", "critical"},
      {"inhibit: [{echo: a, of: b, equal: [rank]}]", "equal cannot hold 'rank'", "job"},
      {"mask: {hosts: maybe}", "true or false", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const Read out = read(row.text);
    REQUIRE_FALSE(out.faults.empty());
    bool found = false, helped = *row.help == '\0';
    for (const Error& fault : out.faults) {
      CAPTURE(fault.message());
      CHECK(fault.place());
      for (const std::string* text : {&fault.message(), &fault.reason(), &fault.help_text()}) CHECK(text->find("T0KEN") == std::string::npos);
      found = found || fault.message().find(row.want) != std::string::npos;
      helped = helped || fault.help_text().find(row.help) != std::string::npos;
    }
    CHECK(found);
    CHECK(helped);
  }
  CHECK(read("group_wiat: 1s\nmask: {x: y}\nsinks: {a: {type: b}}").faults.size() == 3);   // all at once
}

TEST_CASE("globs and kinds") {
  CHECK(glob_fits("llama-*", "LLAMA-405b"));
  CHECK(glob_fits("*", ""));
  CHECK(glob_fits("a*b*c", "axxbyyc"));
  CHECK_FALSE(glob_fits("a*b*c", "axxbyy"));
  CHECK(glob_fits("node-??", "node-17"));
  CHECK_FALSE(glob_fits("node-??", "node-170"));
  CHECK_FALSE(glob_fits(std::string(200, '*') + "b", std::string(20'000, 'a')));
  CHECK(kind_fits({"gpu.oom"}, "gpu.oom.limit"));
  CHECK(kind_fits({"gpu"}, "gpu.oom.limit"));
  CHECK_FALSE(kind_fits({"gpu.oom"}, "gpu.oomph"));
  CHECK(kind_fits({"*.oom.*"}, "jax.oom.runtime"));
}
