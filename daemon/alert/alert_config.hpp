// The section `alerts:` of the configuration: which sinks there are, who is told what, what is held back. Read all at once: every fault
// with its place. Secrets stand in the file as env:NAME, file:PATH or as they are.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/alert/mask.hpp"
#include "daemon/config/secret.hpp"
#include "daemon/http/client.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::daemon {

// A value that is not printed by accident.
struct Secret {
  std::string value;
  bool empty() const { return value.empty(); }
};

struct SlackWebhookSettings {
  Secret url;
};
struct SlackBotSettings {
  Secret token;
  std::string channel;                 // name or id
  std::string api = "https://slack.com/api";
  bool in_place = true;                // updates change the message; else they answer in its thread
};
struct WebhookSettings {
  Secret url, secret;                  // secret: for the signature; may be empty
  std::vector<std::pair<std::string, Secret>> headers;
};
struct AlertmanagerSettings {
  Secret url;                          // without /api/v2/alerts
  std::vector<std::pair<std::string, Secret>> headers;
  std::vector<std::pair<std::string, std::string>> labels;   // added to each alert
  std::chrono::seconds hold{4 * 3600}; // an alert fires so long, unless a later run passes
};
struct PagerDutySettings {
  Secret routing_key;
  std::string url = "https://events.pagerduty.com/v2/enqueue";
  bool resolve_on_close = false;       // else: when a later run passes the failing step
};
struct TeamsSettings {
  Secret url;
};
struct DiscordSettings {
  Secret url;
};
struct MailSettings {
  std::string url;                     // smtp://host:port or smtps://host:port
  bool starttls = true;
  std::string user;
  Secret password;
  std::string from;
  std::vector<std::string> to;
};
struct CommandSettings {
  std::vector<std::string> argv;       // no shell; the first is a path
  std::chrono::milliseconds timeout{10'000};
};

using SinkSettings = std::variant<SlackWebhookSettings, SlackBotSettings, WebhookSettings, AlertmanagerSettings, PagerDutySettings, TeamsSettings, DiscordSettings, MailSettings, CommandSettings>;

struct SinkConfig {
  std::string name;
  SinkSettings settings;
  std::chrono::milliseconds every{1000};   // least time between two messages of a channel
  // What to do when nobody knows whether a message arrived: true: send it again, it may stand there twice; false: keep it as uncertain.
  // Sinks that know a message again are always told again.
  bool repeat_in_doubt = false;

  std::string_view type() const;
  std::string channel() const;         // what the sink itself counts messages by
  bool idempotent() const;             // the same item sent twice is one message
  bool in_place() const;               // a later item changes the message of an earlier one
  bool per_incident() const;           // machines: one message an incident, every change wanted
};

struct AlertRoute {
  std::vector<std::string> jobs, kinds, severities, nodes;   // globs; a kind also fits what begins with it; empty: all
  std::vector<std::string> sinks;
  bool go_on = false;                  // `continue`: later routes are looked at too
  std::optional<std::chrono::seconds> group_wait, repeat_interval;
  bool mute = false;                   // no sinks on purpose
};

// An alert of kind `echo` is held back while one of kind `of` with the same values is fresh.
struct InhibitRule {
  std::vector<std::string> echo, of;   // globs or beginnings of kinds
  std::vector<std::string> equal;      // job, node, attempt; one of them known and the same is enough
  std::chrono::seconds within{600};
};

struct SeverityRule {
  std::vector<std::string> kinds;
  std::string severity;
};

struct AlertConfig {
  std::string link;
  std::chrono::seconds group_wait{10};        // the first alert of a cause waits for others like it
  std::chrono::seconds group_interval{60};    // least time between two messages on one incident
  std::chrono::seconds repeat_interval{4 * 3600};   // the same cause in the same job is told again after this
  std::chrono::seconds give_up_after{24 * 3600};    // then it is a dead letter
  std::vector<std::string> group_by{"fingerprint"}; // fingerprint, kind, job, node, severity
  MaskOptions mask;
  ClientSettings client;
  std::vector<SinkConfig> sinks;
  std::vector<AlertRoute> routes;      // the first that fits; none written: everything to every sink
  std::vector<InhibitRule> inhibit;    // none written: the rules of default_inhibition
  std::vector<SeverityRule> severities;

  const SinkConfig* sink(std::string_view name) const;
  std::string severity_of(std::string_view kind) const;
};

std::vector<InhibitRule> default_inhibition();

// Sinks that may be told again after a restart without harm: the argument of the outbox' recovery.
std::vector<std::string> idempotent_sinks(const AlertConfig& config);

// The configuration; what is wrong is added to `faults` and left at its default. A node of kind null is an empty section: no sinks.
AlertConfig read_alert_config(const parsers::YamlNode& node, std::vector<parsers::Error>& faults, const SecretLookup& lookup = system_secret);

// Does the text fit the glob (* and ?)? Any case. Linear in practice, no recursion.
bool glob_fits(std::string_view glob, std::string_view text);
// One of them fits; a pattern without wildcard also fits a kind that goes on with a dot ("gpu.oom" fits "gpu.oom.limit").
bool kind_fits(const std::vector<std::string>& globs, std::string_view kind);

}  // namespace triage::daemon
