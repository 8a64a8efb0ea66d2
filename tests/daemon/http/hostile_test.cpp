// Peers that want harm: many idle connections, uploads that end or grow, old protocols, pipelines that stop in the middle.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "tests/support/http_fixture.hpp"

using namespace triage;
using namespace triage::tests;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

template <class Condition>
bool comes(Condition condition, std::chrono::seconds time = 20s) {
  for (const auto until = Clock::now() + time; Clock::now() < until; std::this_thread::sleep_for(20ms))
    if (condition()) return true;
  return condition();
}

bool open_files(rlim_t count) {
  rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < count) return false;
  const rlimit wanted = {std::max(count, files.rlim_cur), files.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &wanted) == 0;
}

}  // namespace

TEST_CASE("two thousand idle connections keep nobody out for longer than an idle one may stay") {
  if (!open_files(6000)) {
    MESSAGE("skipped: fewer than 6000 descriptors are allowed");
    return;
  }
  api::HttpConfig config = test_config();
  config.limits.connections = 256;
  config.limits.idle_s = 60;
  config.limits.header_s = 60;
  HttpFixture fixture(config);
  std::vector<HttpConnection> idle;
  for (int i = 0; i < 2000; ++i) idle.emplace_back(fixture.port);
  // All places are taken by peers that say nothing; after some seconds they give way, one for each who comes.
  CHECK(comes([&] { return http_get(fixture.port, "/healthz").status == 200; }));
  CHECK(comes([&] { return fixture.refused("idle_gave_way") >= 1; }));
  for (int i = 0; i < 20; ++i) CHECK(http_get(fixture.port, "/healthz").status == 200);
  CHECK(fixture.refused("too_many_connections") > 0);
  // Who is in the middle of a request does not give way.
  HttpConnection busy(fixture.port);
  busy.send("GET /healthz HTTP/1.1\r\nHost: loc");
  std::this_thread::sleep_for(100ms);
  for (int i = 0; i < 20; ++i) CHECK(http_get(fixture.port, "/healthz").status == 200);
  CHECK(busy.ask("alhost\r\n\r\n").status == 200);
}

TEST_CASE("old HTTP: answers end the connection, no event stream, no transfer codings, no framing games") {
  HttpFixture fixture;
  struct Row {
    const char* name;
    const char* request;
    int status;
    bool closed;
  };
  const Row rows[] = {
      {"1.0", "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", 200, true},
      {"1.0 that asks to stay", "GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", 200, false},
      {"1.1 that asks to leave", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200, true},
      {"events over 1.0", "GET /api/v1/stream HTTP/1.0\r\nHost: localhost\r\n\r\n", 505, true},
      {"chunked over 1.0", "POST /api/v1/push/ndjson HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, true},
      {"0.9", "GET /healthz\r\n\r\n", 400, true},
      {"2.0 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, true},
      {"connect", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 400, false},
      {"trace", "TRACE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, false},
      {"options of all", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, false},
      {"upgrade is passed over", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200, false},
      {"absolute target", "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, false},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    HttpConnection connection(fixture.port);
    const HttpAnswer answer = connection.ask(row.request);
    CHECK(answer.status == row.status);
    CHECK(answer.closed == row.closed);
  }
  HttpConnection connection(fixture.port);
  const HttpAnswer head = connection.ask(http_text("HEAD", "/api/v1/stream"), true);
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-type").starts_with("text/event-stream"));
  CHECK(connection.ask(http_text("GET", "/healthz")).status == 200);   // no body followed
}

TEST_CASE("uploads that end in the middle, again and again, leave no file and no place taken") {
  HttpFixture fixture;
  for (int i = 0; i < 30; ++i) {
    HttpConnection cut(fixture.port);
    std::string start = "POST /api/v1/uploads?name=a.log HTTP/1.1\r\nHost: localhost\r\n";
    start += i % 2 == 0 ? "Content-Length: 100000000\r\n\r\n" : "Transfer-Encoding: chunked\r\n\r\nfffff\r\n";
    cut.send(start + std::string(static_cast<std::size_t>(i) * 10'000, 'x'));
  }
  CHECK(comes([&] { return http_post(fixture.port, "/api/v1/uploads?name=b.log", "a line\n", "").status == 201 || fixture.service.uploaded == "a line\n"; }));
  CHECK(comes([&] { return std::filesystem::is_empty(fixture.folder + "/uploads"); }));
  CHECK(comes([&] { return fixture.registry.gauge(daemon::metrics::kHttpConnections).value() == 0; }));
  CHECK(fixture.service.uploaded == "a line\n");   // none of the halves was handed on
}

TEST_CASE("chunks that cannot be read end the request; what stands behind a fault is not taken for a request") {
  HttpFixture fixture;
  const std::string head = "POST /api/v1/push/ndjson HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string smuggled = "GET /api/v1/incidents HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const std::string& bad : {std::string("x\r\n"), std::string("-1\r\n"), std::string("ffffffffffffffffff\r\n"), std::string("2\r\n{}extra\r\n0\r\n\r\n"), std::string("\r\n"), std::string("2 \n{}\n0\n\n"),
                                 "1;" + std::string(200'000, 'e') + "\r\n"}) {
    CAPTURE(bad.substr(0, 40));
    HttpConnection connection(fixture.port);
    const HttpAnswer answer = connection.ask(head + bad + smuggled);
    CHECK((answer.status == 400 || answer.status == 413));
    CHECK(answer.closed);
    CHECK(connection.answer().status == 0);
  }
  CHECK(http_get(fixture.port, "/healthz").status == 200);
}

TEST_CASE("wrong tokens: each is refused, none is told why, and the body is not read") {
  api::HttpConfig config = test_config();
  config.loopback_needs_token = true;
  config.tokens = {{"ops", api::Role::admin, "0123456789abcdef0123456789abcdef"}, {"shipper", api::Role::push, "fedcba9876543210fedcba9876543210"}};
  HttpFixture fixture(config);
  for (const std::string& value : {std::string(), std::string("Bearer"), std::string("Bearer "), std::string("Bearer 0123456789abcdef0123456789abcde"), std::string("Bearer 0123456789abcdef0123456789abcdef0"),
                                   std::string("Basic b3BzOjAxMjM="), std::string("bearer"), "Bearer " + std::string(8000, 'a')}) {
    CAPTURE(value.substr(0, 60));
    const HttpAnswer answer = http_get(fixture.port, "/api/v1/incidents", value.empty() ? "" : "Authorization: " + value + "\r\n");
    CHECK(answer.status == 401);
    CHECK(answer.headers.at("www-authenticate") == "Bearer realm=\"triaged\"");
    CHECK(answer.body.find("ops") == std::string::npos);
  }
  CHECK(http_get(fixture.port, "/api/v1/incidents", "Authorization: Bearer fedcba9876543210fedcba9876543210\r\n").status == 403);
  CHECK(http_get(fixture.port, "/api/v1/incidents", "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n").status == 200);
  HttpConnection connection(fixture.port);
  CHECK(connection.ask("POST /api/v1/push/ndjson HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n").status == 401);
}

TEST_CASE("a pipeline that is never read does not grow in memory") {
  HttpFixture fixture;
  fixture.service.fill(300);
  HttpConnection connection(fixture.port);
  const std::string one = http_text("GET", "/api/v1/incidents?limit=200");
  // The answers are some 100 KB each. Nobody reads them, so the server stops reading requests, and the peer is cut.
  std::string many;
  for (int i = 0; i < 2000; ++i) many += one;
  std::thread sender([&] { connection.send(many); });
  CHECK(comes([&] { return fixture.refused("slow_reader") == 1; }, 30s));
  sender.join();
  CHECK(fixture.registry.counter(daemon::metrics::kHttpRequests, {"GET", "/api/v1/incidents", "200"}).value() < 2000);
  CHECK(http_get(fixture.port, "/healthz").status == 200);
}
