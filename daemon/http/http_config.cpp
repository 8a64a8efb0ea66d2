#include "daemon/http/http_config.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/config/fields.hpp"
#include "daemon/config/secret.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;
using parsers::YamlNode;
using Kind = parsers::YamlNode::Kind;

namespace {

constexpr std::size_t kLeastSecret = 16;   // bytes of a token beyond loopback: 8 random bytes in hex

std::optional<ListenAddress> read_listen(std::string_view text) {
  if (text.starts_with(':')) return std::nullopt;
  const auto authority = read_authority(text);
  if (!authority) return std::nullopt;
  ListenAddress out;
  if (authority->is_address)
    out.address = authority->host;
  else if (authority->host == "localhost")
    out.address = "127.0.0.1";
  else
    return std::nullopt;
  if (authority->port) out.port = *authority->port;
  return out;
}

void read_tokens(const YamlNode& list, std::vector<HttpToken>& out, std::vector<Error>& faults) {
  if (list.kind != Kind::list) {
    faults.push_back(Error(ErrorCode::syntax, "tokens has to be a list").at(list.place).help("- {name: grafana, role: read, token: env:TRIAGED_READ_TOKEN}"));
    return;
  }
  for (const YamlNode& item : list.items) {
    HttpToken token;
    std::string role;
    Fields fields(item, "a token", faults);
    fields.text("name", token.name);
    fields.text("role", role);
    fields.text("token", token.secret);
    if (role == "read")
      token.role = Role::read;
    else if (role == "push")
      token.role = Role::push;
    else if (role == "admin")
      token.role = Role::admin;
    else
      fields.fault(item, "the role of a token is '" + role + "'", "write read, push or admin");
    if (token.secret.empty()) fields.fault(item, "a token has no value", "write env:NAME, file:PATH or the token itself");
    for (const HttpToken& other : out)
      if (!token.name.empty() && other.name == token.name) fields.fault(item, "two tokens have the name '" + token.name + "'");
    out.push_back(std::move(token));
  }
}

void read_limits(const YamlNode& node, HttpLimits& limits, std::vector<Error>& faults) {
  Fields fields(node, "http.limits", faults);
  fields.count("connections", limits.connections, 1, 100'000);
  fields.count("event_streams", limits.event_streams, 0, 10'000);
  fields.count("waiting", limits.waiting, 1, 100'000);
  fields.bytes("header_bytes", limits.header_bytes, 1024);
  fields.bytes("json_bytes", limits.json_bytes, 1024);
  fields.bytes("push_bytes", limits.push_bytes, 1024);
  fields.bytes("push_unpacked_bytes", limits.push_unpacked_bytes, 1024);
  fields.bytes("upload_bytes", limits.upload_bytes, 1024);
  fields.bytes("memory_bytes", limits.memory_bytes, 1024 * 1024);
  fields.seconds("header_seconds", limits.header_s);
  fields.seconds("idle_seconds", limits.idle_s);
  fields.seconds("stall_seconds", limits.stall_s);
  fields.bytes("slowest_bytes_per_second", limits.slowest_bytes_per_s, 0);
  fields.count("quick_threads", limits.quick_threads, 1, 64);
  fields.count("push_threads", limits.push_threads, 1, 64);
  fields.count("slow_threads", limits.slow_threads, 1, 64);
}

}  // namespace

bool ListenAddress::loopback() const { return address.starts_with("127.") || address == "::1"; }

HttpConfig read_http_config(const YamlNode& node, std::vector<Error>& faults) {
  HttpConfig config;
  if (node.kind == Kind::scalar && !node.quoted && (node.scalar == "off" || node.scalar == "false")) {
    config.enabled = false;
    return config;
  }
  const std::size_t before = faults.size();
  const YamlNode* listen_node = nullptr;
  {
    Fields fields(node, "http", faults);
    std::vector<std::string> listen;
    listen_node = node.kind == Kind::map ? node.find("listen") : nullptr;
    fields.texts("listen", listen);
    if (listen_node) config.listen.clear();
    for (const std::string& text : listen) {
      if (auto address = read_listen(text))
        config.listen.push_back(std::move(*address));
      else
        fields.fault(*listen_node, "'" + text + "' is no address to listen on", "write 127.0.0.1:9477, [::1]:9477 or 0.0.0.0:9477");
    }
    if (const YamlNode* tls = fields.find("tls")) {
      Fields inner(*tls, "http.tls", faults);
      inner.text("certificate", config.certificate);
      inner.text("key", config.key);
      if (config.certificate.empty() || config.key.empty()) fields.fault(*tls, "tls needs both certificate and key");
    }
    fields.flag("plain", config.plain);
    if (const YamlNode* tokens = fields.find("tokens")) read_tokens(*tokens, config.tokens, faults);
    fields.flag("loopback_needs_token", config.loopback_needs_token);
    fields.flag("open_metrics", config.open_metrics);
    fields.texts("allowed_hosts", config.allowed_hosts);
    for (std::string& host : config.allowed_hosts) {
      const auto authority = read_authority(host);
      if (!authority || authority->port)
        fields.fault(*node.find("allowed_hosts"), "'" + host + "' is no host name", "write the name alone, without scheme and port");
      else
        host = authority->host;
    }
    fields.text("upload_folder", config.upload_folder);
    if (const YamlNode* limits = fields.find("limits")) read_limits(*limits, config.limits, faults);
  }
  if (faults.size() > before) return config;
  const bool outside = std::any_of(config.listen.begin(), config.listen.end(), [](const ListenAddress& at) { return !at.loopback(); });
  const parsers::Place place = listen_node ? listen_node->place : node.place;
  if (outside && config.certificate.empty() && !config.plain)
    faults.push_back(Error(ErrorCode::conflict, "http listens beyond this host without TLS, so tokens and logs could be read on the way")
                         .at(place)
                         .help("give tls: {certificate: ..., key: ...}; or plain: true where something in front of it ends TLS"));
  if (outside && config.tokens.empty())
    faults.push_back(Error(ErrorCode::conflict, "http listens beyond this host, but there is no token").at(place).help("give tokens: - {name: ops, role: admin, token: env:TRIAGED_TOKEN}"));
  return config;
}

parsers::Result<std::string> read_secret(const std::string& reference) {
  TRIAGE_TRY(std::string secret, secret_of(reference));
  if (secret.size() < kLeastSecret)
    return Error(ErrorCode::conflict, "a token is shorter than " + std::to_string(kLeastSecret) + " characters").help("make one with: openssl rand -hex 32");
  return secret;
}

}  // namespace triage::daemon::api
