#include "daemon/http/gate.hpp"

#include <doctest/doctest.h>

using namespace triage::daemon::api;

namespace {

const std::string kRead = "read-token-0123456789", kPush = "push-token-0123456789", kAdmin = "admin-token-0123456789";

HttpConfig config() {
  HttpConfig out;
  out.allowed_hosts = {"triage.example.com"};
  out.tokens = {{"r", Role::read, kRead}, {"p", Role::push, kPush}, {"a", Role::admin, kAdmin}};
  return out;
}

struct Row {
  const char* name;
  const char* method;
  Role route;
  bool loopback;
  std::vector<std::pair<std::string, std::string>> headers;
  int want;                                         // 0: let through
};

}  // namespace

TEST_CASE("who may do what") {
  const HttpConfig settings = config();
  const Gate gate(settings, settings.tokens);
  using H = std::vector<std::pair<std::string, std::string>>;
  const auto bearer = [](const std::string& token) { return std::pair<std::string, std::string>("authorization", "Bearer " + token); };
  const std::pair<std::string, std::string> ip("host", "10.0.0.1:9477"), local("host", "127.0.0.1:9477"), named("host", "triage.example.com"), evil("host", "evil.example");
  const Row rows[] = {
      {"loopback needs no token", "GET", Role::admin, true, H{local}, 0},
      {"localhost by name", "POST", Role::admin, true, H{{"host", "localhost:9477"}}, 0},
      {"outside without a token", "GET", Role::read, false, H{ip}, 401},
      {"a probe without a token", "GET", Role::none, false, H{ip}, 0},
      {"read token reads", "GET", Role::read, false, H{ip, bearer(kRead)}, 0},
      {"read token changes nothing", "POST", Role::admin, false, H{ip, bearer(kRead)}, 403},
      {"read token pushes nothing", "POST", Role::push, false, H{ip, bearer(kRead)}, 403},
      {"push token pushes", "POST", Role::push, false, H{ip, bearer(kPush)}, 0},
      {"push token reads nothing", "GET", Role::read, false, H{ip, bearer(kPush)}, 403},
      {"admin token does all", "POST", Role::admin, false, H{ip, bearer(kAdmin)}, 0},
      {"scheme in small letters", "GET", Role::read, false, H{ip, {"authorization", "bearer " + kRead}}, 0},
      {"a wrong token", "GET", Role::read, false, H{ip, bearer("read-token-0123456780")}, 401},
      {"a part of a token", "GET", Role::read, false, H{ip, bearer(kRead.substr(0, 10))}, 401},
      {"an empty token", "GET", Role::read, false, H{ip, {"authorization", "Bearer "}}, 401},
      {"a wrong token on loopback is not ignored", "GET", Role::read, true, H{local, bearer("nonsense-0123456789")}, 401},
      {"forwarded by a proxy on this host", "GET", Role::read, true, H{local, {"x-forwarded-for", "1.2.3.4"}}, 401},
      {"rebound name", "GET", Role::read, true, H{evil}, 421},
      {"rebound name, probe", "GET", Role::none, true, H{evil}, 421},
      {"a name that only looks like an address", "GET", Role::read, true, H{{"host", "127.0.0.1.evil.example"}}, 421},
      {"allowed name", "GET", Role::read, true, H{named}, 0},
      {"a token does not come from a rebound page", "GET", Role::read, false, H{evil, bearer(kRead)}, 0},
      {"no host", "GET", Role::read, true, H{}, 400},
      {"own page posts", "POST", Role::admin, true, H{local, {"origin", "http://127.0.0.1:9477"}, {"sec-fetch-site", "same-origin"}}, 0},
      {"page behind a proxy that ends TLS", "POST", Role::admin, true, H{named, {"origin", "https://triage.example.com"}}, 0},
      {"other site posts", "POST", Role::admin, true, H{local, {"origin", "https://evil.example"}}, 403},
      {"other port posts", "POST", Role::admin, true, H{local, {"origin", "http://127.0.0.1:8000"}}, 403},
      {"origin null posts", "POST", Role::admin, true, H{local, {"origin", "null"}}, 403},
      {"other site reads", "GET", Role::read, true, H{local, {"origin", "https://evil.example"}}, 403},
      {"image of another site", "GET", Role::read, true, H{local, {"sec-fetch-site", "cross-site"}}, 403},
      {"typed into the address bar", "GET", Role::read, true, H{local, {"sec-fetch-site", "none"}}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Request request;
    request.method = row.method;
    request.loopback = row.loopback;
    request.headers = row.headers;
    Route route;
    route.role = row.route;
    const auto problem = gate.check(request, &route);
    CHECK((problem ? problem->status : 0) == row.want);
  }
}

TEST_CASE("a link of another site opens the page and nothing else") {
  const HttpConfig settings = config();
  const Gate gate(settings, settings.tokens);
  Request request;
  request.method = "GET";
  request.loopback = true;
  request.headers = {{"host", "127.0.0.1"}, {"sec-fetch-site", "cross-site"}};
  Route page;
  page.role = Role::none;
  page.browser_page = true;
  CHECK_FALSE(gate.check(request, &page));
  request.method = "POST";
  CHECK(gate.check(request, &page));
}

TEST_CASE("the configuration can open metrics and close loopback") {
  HttpConfig settings = config();
  settings.loopback_needs_token = settings.open_metrics = true;
  const Gate gate(settings, settings.tokens);
  Request request;
  request.method = "GET";
  request.loopback = true;
  request.headers = {{"host", "127.0.0.1"}};
  Route route;
  CHECK(gate.check(request, &route)->status == 401);
  route.path = "/metrics";
  CHECK_FALSE(gate.check(request, &route));
}
