#include "daemon/alert/alert_config.hpp"

#include <algorithm>
#include <utility>

#include "daemon/config/fields.hpp"
#include "parsers/base/nearest.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::YamlNode;
using Kind = YamlNode::Kind;
using Texts = std::vector<std::string>;
using Names = std::vector<std::string_view>;

namespace {

constexpr std::size_t kSinks = 64, kRoutes = 1000;

bool is_address(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == 0 || at == std::string_view::npos || at + 1 == text.size() || text.size() > 254) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f && c != '<' && c != '>' && c != ',' && c != ';' && c != '"'; }) && text.find('@', at + 1) == std::string_view::npos;
}

// A map with secrets in it.
class AlertFields : public Fields {
 public:
  AlertFields(const YamlNode& node, std::string what, std::vector<Error>& faults, const SecretLookup& lookup) : Fields(node, std::move(what), faults), lookup_(lookup) {}

  AlertFields inner(const YamlNode& node, std::string what) { return {node, std::move(what), faults(), lookup_}; }
  // An item that is nothing at all is a fault, too.
  bool is_item() {
    if (node().kind == Kind::null) fault(node(), what() + " is empty");
    return is_map();
  }

  bool secret(const YamlNode& node, std::string_view key, Secret& out) {
    if (node.kind != Kind::scalar || node.scalar.empty()) {
      fault(node, std::string(key) + " has to be text", "write env:NAME or file:PATH");
      return false;
    }
    auto found = secret_of(node.scalar, lookup_);
    if (!found.ok()) {
      faults().push_back(std::move(found).error().at(node.place).context("reading " + std::string(key)));
      return false;
    }
    out.value = *std::move(found);
    return true;
  }
  bool secret(std::string_view key, Secret& out, bool needed) {
    const YamlNode* const found = find(key);
    if (found != nullptr) return secret(*found, key, out);
    if (needed) fault(node(), std::string(key) + " is missing");
    return false;
  }

  // Checks what a URL may be. The text of a fault does not repeat it.
  void url(std::string_view key, const std::string& value, const Names& schemes, bool plain_anywhere) {
    if (value.empty()) return;
    const YamlNode* const found = find(key);
    const Place place = found != nullptr ? found->place : node().place;
    const auto parts = read_url(value);
    if (!parts.ok()) return fault(place, std::string(key) + " is not a URL", parts.error().message());
    if (std::find(schemes.begin(), schemes.end(), parts->scheme) == schemes.end()) return fault(place, std::string(key) + " cannot begin with " + parts->scheme + "://", parsers::nearest_name(parts->scheme, schemes));
    if (parts->has_user) return fault(place, std::string(key) + " holds a login", "put it into a header: 'headers: {Authorization: env:NAME}', or 'user' and 'password' of a mail server");
    if (parts->scheme == "http" && !plain_anywhere && !parts->loopback) fault(place, std::string(key) + " is not encrypted", "use https://");
  }

  void headers(std::vector<std::pair<std::string, Secret>>& out) {
    const YamlNode* const found = find("headers");
    if (found == nullptr) return;
    if (found->kind != Kind::map || found->entries.size() > 32) return fault(*found, "headers has to be a map of names and values");
    for (const auto& entry : found->entries) {
      const bool good = !entry.key.empty() && std::all_of(entry.key.begin(), entry.key.end(), [](char c) { return parsers::is_alnum(c) || c == '-' || c == '_'; });
      if (!good) fault(entry.value.key_place, "'" + entry.key + "' is not the name of a header");
      Secret value;
      if (secret(entry.value, entry.key, value) && good) out.emplace_back(entry.key, std::move(value));
    }
  }

 private:
  const SecretLookup& lookup_;
};

const Names kTypes = {"slack_webhook", "slack_bot", "webhook", "alertmanager", "pagerduty", "teams", "discord", "mail", "command"};
const Names kSeverities = {"critical", "warning", "info"};
const std::chrono::seconds kYear(365 * 86'400);

std::optional<SinkSettings> read_sink(AlertFields& read, const std::string& type) {
  const YamlNode& node = read.node();
  const std::string& what = read.what();
  if (type == "slack_webhook") {
    SlackWebhookSettings out;
    read.secret("url", out.url, true);
    read.url("url", out.url.value, {"https", "http"}, false);
    return out;
  }
  if (type == "slack_bot") {
    SlackBotSettings out;
    read.secret("token", out.token, true);
    if (!read.name("channel", out.channel) && !read.has("channel")) read.fault(node, what + " has no channel", "add 'channel: \"#gpu-alerts\"'");
    read.name("api", out.api);
    while (out.api.ends_with('/')) out.api.pop_back();
    read.url("api", out.api, {"https", "http"}, false);
    std::string updates = "in_place";
    read.one_of("updates", updates, {"in_place", "thread"});
    out.in_place = updates == "in_place";
    return out;
  }
  if (type == "webhook") {
    WebhookSettings out;
    read.secret("url", out.url, true);
    read.url("url", out.url.value, {"https", "http"}, true);
    read.secret("secret", out.secret, false);
    read.headers(out.headers);
    return out;
  }
  if (type == "alertmanager") {
    AlertmanagerSettings out;
    read.secret("url", out.url, true);
    while (out.url.value.ends_with('/')) out.url.value.pop_back();
    read.url("url", out.url.value, {"https", "http"}, true);
    read.headers(out.headers);
    read.duration("hold", out.hold, std::chrono::seconds(60), kYear);
    if (const YamlNode* labels = read.find("labels")) {
      if (labels->kind != Kind::map || labels->entries.size() > 32) read.fault(labels->place, "labels has to be a map of names and values");
      for (const auto& entry : labels->entries) {
        const bool good = !entry.key.empty() && !parsers::is_digit(entry.key[0]) && std::all_of(entry.key.begin(), entry.key.end(), [](char c) { return parsers::is_alnum(c) || c == '_'; });
        if (!good) read.fault(entry.value.key_place, "'" + entry.key + "' is not the name of a label");
        else if (entry.value.kind != Kind::scalar) read.fault(entry.value.place, "a label has to be text");
        else out.labels.emplace_back(entry.key, entry.value.scalar);
      }
    }
    return out;
  }
  if (type == "pagerduty") {
    PagerDutySettings out;
    read.secret("routing_key", out.routing_key, true);
    read.name("url", out.url);
    read.url("url", out.url, {"https", "http"}, false);
    std::string resolve = "next_run";
    read.one_of("resolve", resolve, {"next_run", "closed"});
    out.resolve_on_close = resolve == "closed";
    return out;
  }
  if (type == "teams" || type == "discord") {
    Secret url;
    read.secret("url", url, true);
    read.url("url", url.value, {"https", "http"}, false);
    if (type == "teams") return TeamsSettings{url};
    return DiscordSettings{url};
  }
  if (type == "mail") {
    MailSettings out;
    if (!read.name("url", out.url) && !read.has("url")) read.fault(node, what + " has no url", "add 'url: smtp://mail.example.com:587'");
    read.url("url", out.url, {"smtp", "smtps"}, true);
    read.flag("starttls", out.starttls);
    read.name("user", out.user);
    read.secret("password", out.password, false);
    if (const auto parts = read_url(out.url); parts.ok() && !out.user.empty() && parts->scheme == "smtp" && !out.starttls && !parts->loopback)
      read.fault(node, what + " would send its password without encryption", "leave out 'starttls: false'");
    if (!read.name("from", out.from)) read.fault(node, what + " has no sender", "add 'from: triage@example.com'");
    else if (!is_address(out.from)) read.fault(node.find("from")->place, "from is not a mail address");
    read.texts("to", out.to);
    if (out.to.empty() || out.to.size() > 100) read.fault(node, what + " needs 1 to 100 receivers", "add 'to: [ops@example.com]'");
    for (const std::string& address : out.to)
      if (!is_address(address)) read.fault(node.find("to")->place, "'" + address + "' is not a mail address");
    return out;
  }
  CommandSettings out;
  read.texts("argv", out.argv);
  if (out.argv.empty() || !out.argv[0].starts_with('/')) read.fault(node, what + " needs 'argv' with the whole path of a program", "add 'argv: [/usr/local/bin/tell, --gpu]'");
  for (const std::string& word : out.argv)
    if (word.find('\0') != std::string::npos) read.fault(node, "argv holds a NUL byte");
  read.duration("timeout", out.timeout, std::chrono::milliseconds(100), std::chrono::milliseconds(300'000));
  return out;
}

void read_sinks(AlertFields& alerts, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::map || node.entries.size() > kSinks) return alerts.fault(node, "sinks has to be a map of names and sinks, at most " + std::to_string(kSinks));
  for (const auto& entry : node.entries) {
    SinkConfig sink;
    sink.name = entry.key;
    const bool good = !sink.name.empty() && sink.name.size() <= 64 && std::all_of(sink.name.begin(), sink.name.end(), [](char c) { return parsers::is_alnum(c) || c == '-' || c == '_' || c == '.'; });
    if (!good) alerts.fault(entry.value.key_place, "a sink is named by letters, digits, '-', '_' and '.'");
    AlertFields read = alerts.inner(entry.value, "the sink '" + sink.name + "'");
    if (!read.is_item()) continue;
    std::string type;
    if (!read.one_of("type", type, kTypes)) {
      if (!read.has("type")) read.fault(entry.value, read.what() + " has no type", parsers::nearest_name("", kTypes));
      read.leave_rest();
      continue;
    }
    read.duration("every", sink.every, std::chrono::milliseconds(0), std::chrono::milliseconds(3'600'000));
    read.flag("repeat_in_doubt", sink.repeat_in_doubt);
    if (auto settings = read_sink(read, type)) {
      sink.settings = std::move(*settings);
      out.sinks.push_back(std::move(sink));
    }
  }
}

void check_globs(Fields& read, const Texts& globs) {
  for (const std::string& glob : globs)
    if (glob.size() > 256) read.fault(read.node(), "a pattern is longer than 256 characters", "", ErrorCode::limit);
}

void read_routes(AlertFields& alerts, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::list || node.items.size() > kRoutes) return alerts.fault(node, "routes has to be a list");
  for (const YamlNode& item : node.items) {
    AlertFields read = alerts.inner(item, "a route");
    if (!read.is_item()) continue;
    AlertRoute route;
    read.texts("job", route.jobs);
    read.texts("kind", route.kinds);
    read.texts("node", route.nodes);
    read.texts("severity", route.severities);
    for (const Texts* globs : {&route.jobs, &route.kinds, &route.nodes}) check_globs(read, *globs);
    for (const std::string& severity : route.severities)
      if (std::find(kSeverities.begin(), kSeverities.end(), severity) == kSeverities.end()) read.fault(*read.find("severity"), "there is no severity '" + severity + "'", parsers::nearest_name(severity, kSeverities));
    read.texts("sinks", route.sinks);
    read.flag("continue", route.go_on);
    read.flag("mute", route.mute);
    std::chrono::seconds time{};
    if (read.duration("group_wait", time, std::chrono::seconds(0), std::chrono::seconds(3600))) route.group_wait = time;
    if (read.duration("repeat_interval", time, std::chrono::seconds(0), kYear)) route.repeat_interval = time;
    if (route.sinks.empty() && !route.mute) read.fault(item, "a route has no sinks", "add 'sinks: [name]', or 'mute: true' when nobody is to be told");
    if (!route.sinks.empty() && route.mute) read.fault(item, "a muted route has sinks");
    std::vector<std::string_view> names;
    for (const SinkConfig& sink : out.sinks) names.push_back(sink.name);
    for (const std::string& name : route.sinks)
      if (out.sink(name) == nullptr) read.fault(*read.find("sinks"), "there is no sink '" + name + "'", parsers::nearest_name(name, names), ErrorCode::not_found);
    out.routes.push_back(std::move(route));
  }
}

void read_inhibit(AlertFields& alerts, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::list || node.items.size() > kRoutes) return alerts.fault(node, "inhibit has to be a list");
  out.inhibit.clear();
  for (const YamlNode& item : node.items) {
    AlertFields read = alerts.inner(item, "an inhibition");
    if (!read.is_item()) continue;
    InhibitRule rule;
    read.texts("echo", rule.echo);
    read.texts("of", rule.of);
    check_globs(read, rule.echo);
    check_globs(read, rule.of);
    read.texts("equal", rule.equal);
    for (const std::string& name : rule.equal)
      if (name != "job" && name != "node") read.fault(*read.find("equal"), "equal cannot hold '" + name + "'", "known: job, node");
    read.duration("within", rule.within, std::chrono::seconds(1), std::chrono::seconds(86'400));
    if (rule.echo.empty() || rule.of.empty() || rule.equal.empty()) read.fault(item, "an inhibition needs echo, of and equal");
    else out.inhibit.push_back(std::move(rule));
  }
}

void read_mask(AlertFields& alerts, const YamlNode& node, MaskOptions& out) {
  AlertFields read = alerts.inner(node, "alerts.mask");
  read.flag("users", out.users);
  read.flag("mails", out.mails);
  read.flag("hosts", out.hosts);
  read.texts("host_names", out.host_names);
  read.texts("host_suffixes", out.host_suffixes);
  read.texts("words", out.words);
}

void read_client(AlertFields& alerts, const YamlNode& node, ClientSettings& out) {
  AlertFields read = alerts.inner(node, "alerts.client");
  const std::chrono::milliseconds least(100), most(120'000);
  read.duration("connect_timeout", out.connect_timeout, least, most);
  read.duration("timeout", out.timeout, least, most);
  read.name("ca_file", out.ca_file);
  if (read.name("proxy", out.proxy)) read.url("proxy", out.proxy, {"http", "https", "socks5", "socks5h"}, true);
}

void read_severities(AlertFields& alerts, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::list) alerts.fault(node, "severities has to be a list");
  for (const YamlNode& item : node.items) {
    AlertFields read = alerts.inner(item, "a severity");
    if (!read.is_item()) continue;
    SeverityRule rule;
    read.texts("kind", rule.kinds);
    check_globs(read, rule.kinds);
    if (read.one_of("severity", rule.severity, kSeverities) && !rule.kinds.empty()) out.severities.push_back(std::move(rule));
    else if (!read.has("severity") || rule.kinds.empty()) read.fault(item, "a severity needs kind and severity");
  }
}

}  // namespace

std::string_view SinkConfig::type() const { return kTypes[settings.index()]; }

std::string SinkConfig::channel() const {
  if (const auto* bot = std::get_if<SlackBotSettings>(&settings)) return bot->channel;
  return name;
}

bool SinkConfig::idempotent() const {
  return std::holds_alternative<WebhookSettings>(settings) || std::holds_alternative<AlertmanagerSettings>(settings) || std::holds_alternative<PagerDutySettings>(settings);
}

bool SinkConfig::in_place() const {
  if (const auto* bot = std::get_if<SlackBotSettings>(&settings)) return bot->in_place;
  return per_incident() || std::holds_alternative<DiscordSettings>(settings);
}

bool SinkConfig::per_incident() const { return idempotent() || std::holds_alternative<CommandSettings>(settings); }

const SinkConfig* AlertConfig::sink(std::string_view name) const {
  for (const SinkConfig& one : sinks)
    if (one.name == name) return &one;
  return nullptr;
}

std::string AlertConfig::severity_of(std::string_view kind) const {
  for (const SeverityRule& rule : severities)
    if (kind_fits(rule.kinds, kind)) return rule.severity;
  return "";
}

std::vector<InhibitRule> default_inhibition() {
  // Waiting ranks, closed connections and killed processes follow from a fault of the same job; jobs of a node follow from its hardware.
  return {{{"nccl", "dist", "proc", "sched.cancelled"}, {"gpu", "cuda", "host", "io", "jax", "tf", "triton", "ckpt", "num", "sched.node_fail", "sched.preempted"}, {"job"}, std::chrono::seconds(600)},
          {{"nccl", "dist", "proc", "cuda"}, {"gpu.xid", "gpu.sxid", "gpu.fallen_off_bus", "gpu.nvlink", "host.oom", "sched.node_fail"}, {"node"}, std::chrono::seconds(600)}};
}

std::vector<std::string> idempotent_sinks(const AlertConfig& config) {
  std::vector<std::string> out;
  for (const SinkConfig& sink : config.sinks)
    if (sink.idempotent() || sink.repeat_in_doubt) out.push_back(sink.name);
  return out;
}

AlertConfig read_alert_config(const YamlNode& node, std::vector<Error>& faults, const SecretLookup& lookup) {
  AlertConfig out;
  out.inhibit = default_inhibition();
  AlertFields read(node, "alerts", faults, lookup);
  if (!read.is_map()) return out;
  read.name("link", out.link);
  std::string form = out.link;   // "{" is no character of a URL
  if (const std::size_t at = form.find("{id}"); at != std::string::npos) form.replace(at, 4, "id");
  read.url("link", form, {"https", "http"}, true);
  read.duration("group_wait", out.group_wait, std::chrono::seconds(0), std::chrono::seconds(3600));
  read.duration("group_interval", out.group_interval, std::chrono::seconds(0), std::chrono::seconds(86'400));
  read.duration("repeat_interval", out.repeat_interval, std::chrono::seconds(0), kYear);
  read.duration("give_up_after", out.give_up_after, std::chrono::seconds(60), kYear);
  read.texts("group_by", out.group_by);
  for (const std::string& name : out.group_by)
    if (const Names kNames = {"fingerprint", "kind", "job", "node", "severity"}; std::find(kNames.begin(), kNames.end(), name) == kNames.end())
      read.fault(*read.find("group_by"), "group_by cannot hold '" + name + "'", parsers::nearest_name(name, kNames));
  if (const YamlNode* mask = read.find("mask")) read_mask(read, *mask, out.mask);
  if (const YamlNode* client = read.find("client")) read_client(read, *client, out.client);
  if (const YamlNode* severities = read.find("severities")) read_severities(read, *severities, out);
  if (const YamlNode* sinks = read.find("sinks")) read_sinks(read, *sinks, out);
  if (const YamlNode* routes = read.find("routes")) {
    read_routes(read, *routes, out);
  } else if (!out.sinks.empty()) {
    AlertRoute all;
    for (const SinkConfig& sink : out.sinks) all.sinks.push_back(sink.name);
    out.routes.push_back(std::move(all));
  }
  if (const YamlNode* inhibit = read.find("inhibit")) read_inhibit(read, *inhibit, out);
  return out;
}

bool glob_fits(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      mark = t;
    } else if (g < glob.size() && (glob[g] == '?' || parsers::to_lower(glob[g]) == parsers::to_lower(text[t]))) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool kind_fits(const Texts& globs, std::string_view kind) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    if (glob_fits(glob, kind)) return true;
    return glob.find_first_of("*?") == std::string::npos && kind.size() > glob.size() && kind[glob.size()] == '.' && parsers::starts_with_ignoring_case(kind, glob);
  });
}

}  // namespace triage::daemon
