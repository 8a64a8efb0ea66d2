#include "daemon/alert/alert_config.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "parsers/base/nearest.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::YamlNode;
using Kind = YamlNode::Kind;
using Texts = std::vector<std::string>;
using Names = std::vector<std::string_view>;

namespace {

constexpr std::size_t kSecretBytes = 64 * 1024;   // of a file that holds a secret
constexpr std::size_t kSinks = 64, kRoutes = 1000, kList = 1000;

// "10s", "500ms", "5m", "4h", "2d".
std::optional<std::chrono::milliseconds> read_duration(std::string_view text) {
  const auto number = parsers::take_integer(text);
  if (!number || *number > 100'000'000) return std::nullopt;
  for (const auto& [unit, factor] : {std::pair<std::string_view, std::int64_t>{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}})
    if (text == unit) return std::chrono::milliseconds(*number * factor);
  return std::nullopt;
}

bool is_address(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == 0 || at == std::string_view::npos || at + 1 == text.size() || text.size() > 254) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f && c != '<' && c != '>' && c != ',' && c != ';' && c != '"'; }) && text.find('@', at + 1) == std::string_view::npos;
}

// "Name <a@b.c>" is not taken: names go wrong in headers.
class Reader {
 public:
  Reader(std::vector<Error>& faults, const SecretLookup& lookup) : faults_(faults), lookup_(lookup) {}

  void fault(const Place& place, std::string what, std::string help = "", ErrorCode code = ErrorCode::syntax) {
    faults_.push_back(Error(code, std::move(what)).at(place).help(std::move(help)));
  }

  // True for a map; names every key that is not known.
  bool map(const YamlNode& node, const std::string& what, const Names& keys) {
    if (node.kind != Kind::map) {
      fault(node.place, what + " has to be a map of keys, not " + std::string(kind_name(node.kind)));
      return false;
    }
    for (const auto& entry : node.entries)
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
        fault(entry.value.key_place, what + " has no key '" + entry.key + "'", parsers::nearest_name(entry.key, keys), ErrorCode::not_found);
    return true;
  }

  bool text(const YamlNode& owner, std::string_view key, std::string& out) {
    const YamlNode* node = owner.find(key);
    if (node == nullptr) return false;
    if (node->kind != Kind::scalar || node->scalar.empty()) {
      fault(node->place, "'" + std::string(key) + "' has to be text");
      return false;
    }
    if (node->scalar.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      fault(node->place, "'" + std::string(key) + "' has to be one line");
      return false;
    }
    out = node->scalar;
    return true;
  }

  void flag(const YamlNode& owner, std::string_view key, bool& out) {
    const YamlNode* node = owner.find(key);
    if (node == nullptr) return;
    if (node->kind == Kind::scalar && !node->quoted && (node->scalar == "true" || node->scalar == "false"))
      out = node->scalar == "true";
    else
      fault(node->place, "'" + std::string(key) + "' has to be true or false");
  }

  template <class Duration>
  bool duration(const YamlNode& owner, std::string_view key, Duration& out, Duration least, Duration most) {
    const YamlNode* node = owner.find(key);
    if (node == nullptr) return false;
    const auto read = node->kind == Kind::scalar ? read_duration(node->scalar) : std::nullopt;
    if (!read)
      fault(node->place, "'" + std::string(key) + "' has to be a time", "write a whole number and a unit: 500ms, 10s, 5m, 4h or 2d");
    else if (*read < least || *read > most)
      fault(node->place, "'" + std::string(key) + "' is out of range", "", ErrorCode::limit);
    else {
      out = std::chrono::duration_cast<Duration>(*read);
      return true;
    }
    return false;
  }

  // One text or a list of them.
  void texts(const YamlNode& owner, std::string_view key, Texts& out) {
    const YamlNode* node = owner.find(key);
    if (node == nullptr) return;
    Texts read;
    if (node->kind == Kind::scalar) {
      read.push_back(node->scalar);
    } else if (node->kind == Kind::list && node->items.size() <= kList) {
      for (const YamlNode& item : node->items) {
        if (item.kind == Kind::scalar) read.push_back(item.scalar);
        else fault(item.place, "each of '" + std::string(key) + "' has to be text");
      }
    } else {
      fault(node->place, "'" + std::string(key) + "' has to be text or a list of texts");
      return;
    }
    if (std::any_of(read.begin(), read.end(), [](const std::string& text) { return text.empty(); })) fault(node->place, "'" + std::string(key) + "' holds an empty text");
    out = std::move(read);
  }

  bool one_of(const YamlNode& owner, std::string_view key, std::string& out, const Names& names) {
    const Place place = owner.find(key) != nullptr ? owner.find(key)->place : owner.place;
    std::string read;
    if (!text(owner, key, read)) return false;
    if (std::find(names.begin(), names.end(), read) == names.end()) {
      fault(place, "'" + std::string(key) + "' cannot be '" + read + "'", parsers::nearest_name(read, names));
      return false;
    }
    out = read;
    return true;
  }

  // env:NAME, file:PATH or the value itself.
  bool secret(const YamlNode& node, std::string_view key, Secret& out) {
    if (node.kind != Kind::scalar || node.scalar.empty()) {
      fault(node.place, "'" + std::string(key) + "' has to be text", "write env:NAME or file:PATH");
      return false;
    }
    out.value = node.scalar;
    for (const std::string_view kind : {"env", "file"}) {
      if (!out.value.starts_with(std::string(kind) + ":")) continue;
      auto found = lookup_(kind, out.value.substr(kind.size() + 1));
      if (!found.ok()) {
        faults_.push_back(std::move(found).error().at(node.place).context("reading '" + std::string(key) + "'"));
        out.value.clear();
        return false;
      }
      out.value = std::string(parsers::trim(*found));
      if (out.value.empty()) fault(node.place, "'" + std::string(key) + "' is empty at its source");
    }
    if (out.value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      fault(node.place, "'" + std::string(key) + "' has to be one line");
      out.value.clear();
    }
    return !out.value.empty();
  }
  bool secret_key(const YamlNode& owner, std::string_view key, Secret& out, bool needed) {
    const YamlNode* node = owner.find(key);
    if (node != nullptr) return secret(*node, key, out);
    if (needed) fault(owner.place, "'" + std::string(key) + "' is missing");
    return false;
  }

  // Checks what a URL may be. The text of a fault does not repeat it.
  void url(const YamlNode& owner, std::string_view key, const std::string& value, const Names& schemes, bool plain_anywhere) {
    if (value.empty()) return;
    const YamlNode* node = owner.find(key);
    const Place place = node != nullptr ? node->place : owner.place;
    const auto parts = read_url(value);
    if (!parts.ok()) return fault(place, "'" + std::string(key) + "' is not a URL", parts.error().message());
    if (std::find(schemes.begin(), schemes.end(), parts->scheme) == schemes.end()) return fault(place, "'" + std::string(key) + "' cannot begin with " + parts->scheme + "://", parsers::nearest_name(parts->scheme, schemes));
    if (parts->has_user) return fault(place, "'" + std::string(key) + "' holds a login", "put it into a header: 'headers: {Authorization: env:NAME}', or 'user' and 'password' of a mail server");
    if (parts->scheme == "http" && !plain_anywhere && !parts->loopback) fault(place, "'" + std::string(key) + "' is not encrypted", "use https://");
  }

  void headers(const YamlNode& owner, std::vector<std::pair<std::string, Secret>>& out) {
    const YamlNode* node = owner.find("headers");
    if (node == nullptr) return;
    if (node->kind != Kind::map || node->entries.size() > 32) return fault(node->place, "'headers' has to be a map of names and values");
    for (const auto& entry : node->entries) {
      const bool good = !entry.key.empty() && std::all_of(entry.key.begin(), entry.key.end(), [](char c) { return parsers::is_alnum(c) || c == '-' || c == '_'; });
      if (!good) fault(entry.value.key_place, "'" + entry.key + "' is not the name of a header");
      Secret value;
      if (secret(entry.value, entry.key, value) && good) out.emplace_back(entry.key, std::move(value));
    }
  }

 private:
  std::vector<Error>& faults_;
  const SecretLookup& lookup_;
};

const Names kTypes = {"slack_webhook", "slack_bot", "webhook", "alertmanager", "pagerduty", "teams", "discord", "mail", "command"};
const Names kSeverities = {"critical", "warning", "info"};
const std::chrono::seconds kYear(365 * 86'400);

std::optional<SinkSettings> read_sink(Reader& read, const YamlNode& node, const std::string& name, const std::string& type) {
  const std::string what = "the sink '" + name + "' of type " + type;
  if (type == "slack_webhook") {
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "url"})) return std::nullopt;
    SlackWebhookSettings out;
    read.secret_key(node, "url", out.url, true);
    read.url(node, "url", out.url.value, {"https", "http"}, false);
    return out;
  }
  if (type == "slack_bot") {
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "token", "channel", "api", "updates"})) return std::nullopt;
    SlackBotSettings out;
    read.secret_key(node, "token", out.token, true);
    if (!read.text(node, "channel", out.channel) && node.find("channel") == nullptr) read.fault(node.place, what + " has no channel", "add 'channel: \"#gpu-alerts\"'");
    read.text(node, "api", out.api);
    while (out.api.ends_with('/')) out.api.pop_back();
    read.url(node, "api", out.api, {"https", "http"}, false);
    std::string updates = "in_place";
    read.one_of(node, "updates", updates, {"in_place", "thread"});
    out.in_place = updates == "in_place";
    return out;
  }
  if (type == "webhook") {
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "url", "secret", "headers"})) return std::nullopt;
    WebhookSettings out;
    read.secret_key(node, "url", out.url, true);
    read.url(node, "url", out.url.value, {"https", "http"}, true);
    read.secret_key(node, "secret", out.secret, false);
    read.headers(node, out.headers);
    return out;
  }
  if (type == "alertmanager") {
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "url", "headers", "labels", "hold"})) return std::nullopt;
    AlertmanagerSettings out;
    read.secret_key(node, "url", out.url, true);
    while (out.url.value.ends_with('/')) out.url.value.pop_back();
    read.url(node, "url", out.url.value, {"https", "http"}, true);
    read.headers(node, out.headers);
    read.duration(node, "hold", out.hold, std::chrono::seconds(60), kYear);
    if (const YamlNode* labels = node.find("labels")) {
      if (labels->kind != Kind::map || labels->entries.size() > 32) read.fault(labels->place, "'labels' has to be a map of names and values");
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
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "routing_key", "url", "resolve"})) return std::nullopt;
    PagerDutySettings out;
    read.secret_key(node, "routing_key", out.routing_key, true);
    read.text(node, "url", out.url);
    read.url(node, "url", out.url, {"https", "http"}, false);
    std::string resolve = "next_run";
    read.one_of(node, "resolve", resolve, {"next_run", "closed"});
    out.resolve_on_close = resolve == "closed";
    return out;
  }
  if (type == "teams" || type == "discord") {
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "url"})) return std::nullopt;
    Secret url;
    read.secret_key(node, "url", url, true);
    read.url(node, "url", url.value, {"https", "http"}, false);
    if (type == "teams") return TeamsSettings{url};
    return DiscordSettings{url};
  }
  if (type == "mail") {
    if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "url", "starttls", "user", "password", "from", "to"})) return std::nullopt;
    MailSettings out;
    if (!read.text(node, "url", out.url) && node.find("url") == nullptr) read.fault(node.place, what + " has no url", "add 'url: smtp://mail.example.com:587'");
    read.url(node, "url", out.url, {"smtp", "smtps"}, true);
    read.flag(node, "starttls", out.starttls);
    read.text(node, "user", out.user);
    read.secret_key(node, "password", out.password, false);
    if (const auto parts = read_url(out.url); parts.ok() && !out.user.empty() && parts->scheme == "smtp" && !out.starttls && !parts->loopback)
      read.fault(node.place, what + " would send its password without encryption", "leave out 'starttls: false'");
    if (!read.text(node, "from", out.from)) read.fault(node.place, what + " has no sender", "add 'from: triage@example.com'");
    else if (!is_address(out.from)) read.fault(node.find("from")->place, "'from' is not a mail address");
    read.texts(node, "to", out.to);
    if (out.to.empty() || out.to.size() > 100) read.fault(node.place, what + " needs 1 to 100 receivers", "add 'to: [ops@example.com]'");
    for (const std::string& address : out.to)
      if (!is_address(address)) read.fault(node.find("to")->place, "'" + address + "' is not a mail address");
    return out;
  }
  if (!read.map(node, what, {"type", "every", "repeat_in_doubt", "argv", "timeout"})) return std::nullopt;
  CommandSettings out;
  read.texts(node, "argv", out.argv);
  if (out.argv.empty() || !out.argv[0].starts_with('/')) read.fault(node.place, what + " needs 'argv' with the whole path of a program", "add 'argv: [/usr/local/bin/tell, --gpu]'");
  for (const std::string& word : out.argv)
    if (word.find('\0') != std::string::npos) read.fault(node.place, "'argv' holds a NUL byte");
  read.duration(node, "timeout", out.timeout, std::chrono::milliseconds(100), std::chrono::milliseconds(300'000));
  return out;
}

void read_sinks(Reader& read, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::map || node.entries.size() > kSinks) return read.fault(node.place, "'sinks' has to be a map of names and sinks, at most " + std::to_string(kSinks));
  for (const auto& entry : node.entries) {
    SinkConfig sink;
    sink.name = entry.key;
    const bool good = !sink.name.empty() && sink.name.size() <= 64 && std::all_of(sink.name.begin(), sink.name.end(), [](char c) { return parsers::is_alnum(c) || c == '-' || c == '_' || c == '.'; });
    if (!good) read.fault(entry.value.key_place, "a sink is named by letters, digits, '-', '_' and '.'");
    if (entry.value.kind != Kind::map) {
      read.fault(entry.value.place, "the sink '" + sink.name + "' has to be a map of keys");
      continue;
    }
    std::string type;
    if (!read.one_of(entry.value, "type", type, kTypes)) {
      if (entry.value.find("type") == nullptr) read.fault(entry.value.place, "the sink '" + sink.name + "' has no type", parsers::nearest_name("", kTypes));
      continue;
    }
    read.duration(entry.value, "every", sink.every, std::chrono::milliseconds(0), std::chrono::milliseconds(3'600'000));
    read.flag(entry.value, "repeat_in_doubt", sink.repeat_in_doubt);
    if (auto settings = read_sink(read, entry.value, sink.name, type)) {
      sink.settings = std::move(*settings);
      out.sinks.push_back(std::move(sink));
    }
  }
}

void check_globs(Reader& read, const YamlNode& node, const Texts& globs) {
  for (const std::string& glob : globs)
    if (glob.size() > 256) read.fault(node.place, "a pattern is longer than 256 characters", "", ErrorCode::limit);
}

void read_routes(Reader& read, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::list || node.items.size() > kRoutes) return read.fault(node.place, "'routes' has to be a list");
  for (const YamlNode& item : node.items) {
    if (!read.map(item, "a route", {"job", "kind", "severity", "node", "sinks", "continue", "group_wait", "repeat_interval", "mute"})) continue;
    AlertRoute route;
    read.texts(item, "job", route.jobs);
    read.texts(item, "kind", route.kinds);
    read.texts(item, "node", route.nodes);
    read.texts(item, "severity", route.severities);
    for (const Texts* globs : {&route.jobs, &route.kinds, &route.nodes}) check_globs(read, item, *globs);
    for (const std::string& severity : route.severities)
      if (std::find(kSeverities.begin(), kSeverities.end(), severity) == kSeverities.end()) read.fault(item.find("severity")->place, "there is no severity '" + severity + "'", parsers::nearest_name(severity, kSeverities));
    read.texts(item, "sinks", route.sinks);
    read.flag(item, "continue", route.go_on);
    read.flag(item, "mute", route.mute);
    std::chrono::seconds time{};
    if (read.duration(item, "group_wait", time, std::chrono::seconds(0), std::chrono::seconds(3600))) route.group_wait = time;
    if (read.duration(item, "repeat_interval", time, std::chrono::seconds(0), kYear)) route.repeat_interval = time;
    if (route.sinks.empty() && !route.mute) read.fault(item.place, "a route has no sinks", "add 'sinks: [name]', or 'mute: true' when nobody is to be told");
    if (!route.sinks.empty() && route.mute) read.fault(item.place, "a muted route has sinks");
    std::vector<std::string_view> names;
    for (const SinkConfig& sink : out.sinks) names.push_back(sink.name);
    for (const std::string& name : route.sinks)
      if (out.sink(name) == nullptr) read.fault(item.find("sinks")->place, "there is no sink '" + name + "'", parsers::nearest_name(name, names), ErrorCode::not_found);
    out.routes.push_back(std::move(route));
  }
}

void read_inhibit(Reader& read, const YamlNode& node, AlertConfig& out) {
  if (node.kind != Kind::list || node.items.size() > kRoutes) return read.fault(node.place, "'inhibit' has to be a list");
  out.inhibit.clear();
  for (const YamlNode& item : node.items) {
    if (!read.map(item, "an inhibition", {"echo", "of", "equal", "within"})) continue;
    InhibitRule rule;
    read.texts(item, "echo", rule.echo);
    read.texts(item, "of", rule.of);
    check_globs(read, item, rule.echo);
    check_globs(read, item, rule.of);
    read.texts(item, "equal", rule.equal);
    for (const std::string& name : rule.equal)
      if (name != "job" && name != "node") read.fault(item.find("equal")->place, "'equal' cannot hold '" + name + "'", "known: job, node");
    read.duration(item, "within", rule.within, std::chrono::seconds(1), std::chrono::seconds(86'400));
    if (rule.echo.empty() || rule.of.empty() || rule.equal.empty()) read.fault(item.place, "an inhibition needs 'echo', 'of' and 'equal'");
    else out.inhibit.push_back(std::move(rule));
  }
}

void read_mask(Reader& read, const YamlNode& node, MaskOptions& out) {
  if (!read.map(node, "'mask'", {"users", "mails", "hosts", "host_names", "host_suffixes", "words"})) return;
  read.flag(node, "users", out.users);
  read.flag(node, "mails", out.mails);
  read.flag(node, "hosts", out.hosts);
  read.texts(node, "host_names", out.host_names);
  read.texts(node, "host_suffixes", out.host_suffixes);
  read.texts(node, "words", out.words);
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

Result<std::string> system_secret(std::string_view kind, const std::string& name) {
  if (kind == "env") {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return Error(ErrorCode::not_found, "the environment variable " + name + " is not set");
    return std::string(value);
  }
  std::ifstream in(name, std::ios::binary);
  if (!in) return Error(ErrorCode::io, "the file " + name + " cannot be read");
  std::string text(kSecretBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kSecretBytes) return Error(ErrorCode::limit, "the file " + name + " is too large for a secret");
  return text;
}

AlertConfig read_alert_config(const YamlNode& node, std::vector<Error>& faults, const SecretLookup& lookup) {
  AlertConfig out;
  out.inhibit = default_inhibition();
  if (node.kind == Kind::null) return out;
  Reader read(faults, lookup);
  if (!read.map(node, "'alerts'", {"link", "group_wait", "group_interval", "repeat_interval", "give_up_after", "group_by", "mask", "client", "severities", "sinks", "routes", "inhibit"})) return out;
  read.text(node, "link", out.link);
  std::string form = out.link;   // "{" is no character of a URL
  if (const std::size_t at = form.find("{id}"); at != std::string::npos) form.replace(at, 4, "id");
  read.url(node, "link", form, {"https", "http"}, true);
  read.duration(node, "group_wait", out.group_wait, std::chrono::seconds(0), std::chrono::seconds(3600));
  read.duration(node, "group_interval", out.group_interval, std::chrono::seconds(0), std::chrono::seconds(86'400));
  read.duration(node, "repeat_interval", out.repeat_interval, std::chrono::seconds(0), kYear);
  read.duration(node, "give_up_after", out.give_up_after, std::chrono::seconds(60), kYear);
  read.texts(node, "group_by", out.group_by);
  for (const std::string& name : out.group_by)
    if (const Names kNames = {"fingerprint", "kind", "job", "node", "severity"}; std::find(kNames.begin(), kNames.end(), name) == kNames.end())
      read.fault(node.find("group_by")->place, "'group_by' cannot hold '" + name + "'", parsers::nearest_name(name, kNames));
  if (const YamlNode* mask = node.find("mask")) read_mask(read, *mask, out.mask);
  if (const YamlNode* client = node.find("client"); client != nullptr && read.map(*client, "'client'", {"connect_timeout", "timeout", "ca_file", "proxy"})) {
    const std::chrono::milliseconds least(100), most(120'000);
    read.duration(*client, "connect_timeout", out.client.connect_timeout, least, most);
    read.duration(*client, "timeout", out.client.timeout, least, most);
    read.text(*client, "ca_file", out.client.ca_file);
    if (read.text(*client, "proxy", out.client.proxy)) read.url(*client, "proxy", out.client.proxy, {"http", "https", "socks5", "socks5h"}, true);
  }
  if (const YamlNode* severities = node.find("severities")) {
    if (severities->kind != Kind::list) read.fault(severities->place, "'severities' has to be a list");
    for (const YamlNode& item : severities->items) {
      if (!read.map(item, "a severity", {"kind", "severity"})) continue;
      SeverityRule rule;
      read.texts(item, "kind", rule.kinds);
      check_globs(read, item, rule.kinds);
      if (read.one_of(item, "severity", rule.severity, kSeverities) && !rule.kinds.empty()) out.severities.push_back(std::move(rule));
      else if (item.find("severity") == nullptr || rule.kinds.empty()) read.fault(item.place, "a severity needs 'kind' and 'severity'");
    }
  }
  if (const YamlNode* sinks = node.find("sinks")) read_sinks(read, *sinks, out);
  if (const YamlNode* routes = node.find("routes")) {
    read_routes(read, *routes, out);
  } else if (!out.sinks.empty()) {
    AlertRoute all;
    for (const SinkConfig& sink : out.sinks) all.sinks.push_back(sink.name);
    out.routes.push_back(std::move(all));
  }
  if (const YamlNode* inhibit = node.find("inhibit")) read_inhibit(read, *inhibit, out);
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
