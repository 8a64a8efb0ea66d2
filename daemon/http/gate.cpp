#include "daemon/http/gate.hpp"

#include <openssl/sha.h>

#include <algorithm>

#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace {

// Headers that a proxy adds: the connection comes from this host, the caller does not.
bool forwarded(const Request& request) {
  return request.has_header("forwarded") || request.has_header("x-forwarded-for") || request.has_header("x-real-ip") || request.has_header("via");
}

// The bearer token; empty where there is none.
std::string_view bearer(const Request& request) {
  std::string_view value = request.header("authorization");
  if (!parsers::starts_with_ignoring_case(value, "bearer ")) return {};
  return parsers::trim(value.substr(7));
}

bool changes(const std::string& method) { return method != "GET" && method != "HEAD" && method != "OPTIONS"; }

}  // namespace

std::string sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool holds(Role have, Role need) {
  switch (need) {
    case Role::none: return true;
    case Role::push: return have == Role::push || have == Role::admin;
    case Role::read: return have == Role::read || have == Role::admin;
    case Role::admin: return have == Role::admin;
  }
  return false;
}

Gate::Gate(const HttpConfig& config, const std::vector<HttpToken>& tokens)
    : hosts_(config.allowed_hosts), loopback_needs_token_(config.loopback_needs_token), open_metrics_(config.open_metrics) {
  for (const HttpToken& token : tokens) tokens_.push_back({token.name, sha256(token.secret), token.role});
}

const Gate::Known* Gate::known(std::string_view token) const {
  const std::string digest = sha256(token);
  const Known* found = nullptr;
  for (const Known& one : tokens_)   // all of them, so that the time says nothing
    if (equal_in_constant_time(one.digest, digest)) found = &one;
  return found;
}

std::string Gate::caller(const Request& request) const {
  const std::string_view token = bearer(request);
  const Known* found = token.empty() ? nullptr : known(token);
  return found ? found->name : "";
}

bool Gate::host_allowed(const std::string& host, bool is_address) const {
  return is_address || host == "localhost" || host.ends_with(".localhost") || std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end();
}

std::optional<Problem> Gate::check(Request& request, const Route* route) const {
  request.role = Role::none;
  const std::string_view token = bearer(request);
  const bool tried = request.has_header("authorization");
  if (!token.empty())
    if (const Known* found = known(token)) request.role = found->role;
  const bool has_token = request.role != Role::none;
  const bool local = request.loopback && !loopback_needs_token_ && !forwarded(request);
  if (!has_token && !tried && local) request.role = Role::admin;

  const std::string named = request.target.authority.empty() ? std::string(request.header("host")) : request.target.authority;
  const auto host = read_authority(named);
  if (!host) return Problem{400, "bad_host", "the request has no valid Host"};
  if (!has_token && !host_allowed(host->host, host->is_address))
    return Problem{421, "unknown_host", "the service is not known under the host name of this request", {},
                   "add the name to http.allowed_hosts, or send a token"};

  // Browsers only. A page of ours has the origin under which it was loaded.
  bool foreign = false;
  if (request.has_header("origin")) {
    const auto origin = read_origin(request.header("origin"));
    const int standard = request.tls ? 443 : 80;
    foreign = !origin || origin->authority.host != host->host ||
              origin->authority.port.value_or(origin->scheme == "https" ? 443 : 80) != host->port.value_or(origin->scheme == "https" ? 443 : standard);
    // Behind a proxy that ends TLS the scheme differs; the host decides.
  }
  const std::string_view site = request.header("sec-fetch-site");
  if (site == "cross-site" || site == "same-site") foreign = true;
  const bool opens_page = route && route->browser_page && !changes(request.method) && !request.has_header("origin");
  if (foreign && !opens_page && !has_token) return Problem{403, "cross_site", "the request comes from a page of another site"};

  if (!route) return std::nullopt;
  const Role need = open_metrics_ && route->path == "/metrics" ? Role::none : route->role;
  if (need == Role::none) return std::nullopt;
  if (!holds(request.role, need)) {
    if (!has_token)
      return tried ? Problem{401, "bad_token", "the token is not known"}
                   : Problem{401, "no_token", "this needs a token", {}, "send Authorization: Bearer TOKEN"};
    return Problem{403, "role_too_low", "the token's role does not allow this"};
  }
  return std::nullopt;
}

}  // namespace triage::daemon::api
