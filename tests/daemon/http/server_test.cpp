// The server against clients that do what they should not.
#include "daemon/http/server.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <thread>
#include <vector>

#include "tests/support/http_fixture.hpp"

using namespace triage;
using namespace triage::tests;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using api::BodyKind;
using api::Lane;
using api::Request;
using api::Response;
using api::Role;

namespace {

// A server with the routes of the test.
struct Bare {
  explicit Bare(api::HttpConfig settings = test_config()) : config(std::move(settings)) {}
  void route(const char* method, const char* path, Lane lane, BodyKind body, std::function<Response(const Request&)> handler, std::uint64_t limit = 1024 * 1024) {
    routes.add({method, path, Role::none, lane, body, limit, std::move(handler)});
  }
  void start() {
    auto started = api::Server::start(config, routes, hub, registry);
    REQUIRE(started.ok());
    server = std::move(started).value();
    port = server->ports()[0];
  }
  api::HttpConfig config;
  daemon::EventHub hub{"test"};
  daemon::metrics::Registry registry;
  api::Routes routes;
  std::unique_ptr<api::Server> server;
  int port = 0;
};

Response text(std::string body) {
  Response response;
  response.set("Content-Type", "text/plain");
  response.body = std::move(body);
  return response;
}

Response echo(const Request& request) { return text(request.method + " " + request.target.path + " " + request.body); }

bool ends_within(HttpConnection& connection, std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
    connection.more(50ms);
    if (connection.ended()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("requests are answered, connections kept, pipelines answered in order") {
  Bare bare;
  bare.route("GET", "/x/{id}", Lane::quick, BodyKind::none, [](const Request& request) { return text(request.parameters[0]); });
  bare.route("POST", "/echo", Lane::quick, BodyKind::memory, echo);
  bare.route("GET", "/now", Lane::at_once, BodyKind::none, echo);
  bare.start();
  HttpConnection connection(bare.port);
  for (int i = 0; i < 50; ++i) {
    const HttpAnswer answer = connection.ask(http_text("GET", "/x/" + std::to_string(i)));
    REQUIRE(answer.status == 200);
    REQUIRE(answer.body == std::to_string(i));
    REQUIRE_FALSE(answer.closed);
    CHECK(answer.headers.at("x-content-type-options") == "nosniff");
    CHECK(answer.headers.count("date") == 1);
  }
  std::string pipeline;
  for (int i = 0; i < 100; ++i) pipeline += i % 3 == 0 ? http_text("POST", "/echo", "", "b" + std::to_string(i)) : i % 3 == 1 ? http_text("GET", "/now") : http_text("GET", "/x/" + std::to_string(i));
  REQUIRE(connection.send(pipeline));
  for (int i = 0; i < 100; ++i) {
    const HttpAnswer answer = connection.answer();
    REQUIRE(answer.status == 200);
    CHECK(answer.body == (i % 3 == 0 ? "POST /echo b" + std::to_string(i) : i % 3 == 1 ? "GET /now " : std::to_string(i)));
  }
  const HttpAnswer head = connection.ask(http_text("HEAD", "/x/abc"), true);
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") == "3");
  CHECK(connection.ask("GET /now HTTP/1.0\r\nHost: localhost\r\n\r\n").closed);
}

TEST_CASE("bodies: chunked in any pieces, 100-continue, too large, none wanted") {
  Bare bare;
  bare.route("POST", "/echo", Lane::quick, BodyKind::memory, echo, 1000);
  bare.route("GET", "/get", Lane::quick, BodyKind::none, echo);
  bare.start();
  const std::string chunked = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\nTrailer: x\r\n\r\n";
  for (const std::size_t piece : {1UL, 7UL, 1000UL}) {
    HttpConnection connection(bare.port);
    for (std::size_t at = 0; at < chunked.size(); at += piece) connection.send(std::string_view(chunked).substr(at, piece));
    const HttpAnswer answer = connection.answer();
    CHECK(answer.status == 200);
    CHECK(answer.body == "POST /echo hello world");
    CHECK(connection.ask(http_text("GET", "/get")).status == 200);
  }
  {
    HttpConnection connection(bare.port);
    connection.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    REQUIRE(connection.more());
    CHECK(connection.buffer() == "HTTP/1.1 100 Continue\r\n\r\n");
    connection.send("abc");
    CHECK(connection.answer().body == "POST /echo abc");
    CHECK(connection.ask(http_text("POST", "/echo", "Expect: tea\r\n", "x")).status == 417);
  }
  CHECK(http_post(bare.port, "/echo", std::string(1000, 'x')).status == 200);
  CHECK(http_post(bare.port, "/echo", std::string(1001, 'x')).status == 413);
  CHECK(http_post(bare.port, "/echo", std::string(3'000'000, 'x')).status == 413);   // the answer comes though the body was under way
  {
    HttpConnection connection(bare.port);
    std::string endless = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 100; ++i) endless += "64\r\n" + std::string(100, 'x') + "\r\n";
    CHECK(connection.ask(endless).status == 413);
  }
  CHECK(http_post(bare.port, "/echo", "").status == 200);
  CHECK(HttpConnection(bare.port).ask(http_text("GET", "/get", "", "body")).status == 400);
}

TEST_CASE("malformed requests") {
  Bare bare;
  bare.route("POST", "/echo", Lane::quick, BodyKind::memory, echo);
  bare.route("GET", "/get", Lane::quick, BodyKind::none, echo);
  bare.start();
  struct Row {
    const char* name;
    std::string request;
    int status;
  };
  const std::string host = "Host: localhost\r\n";
  const Row rows[] = {
      {"no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello there\r\n\r\n", 400},
      {"bad version", "GET / HTTP/9.9\r\n" + host + "\r\n", 505},
      {"no host", "GET /get HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET /get HTTP/1.1\r\n" + host + host + "\r\n", 400},
      {"length and chunked", "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked and length", "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {"two lengths", "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"negative length", "POST /echo HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\n", 400},
      {"huge length", "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"large length", "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 999999999999\r\n\r\n", 413},
      {"unknown transfer coding", "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"chunked not last", "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, gzip\r\n\r\n", 501},
      {"bad chunk", "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"space before the colon", "GET /get HTTP/1.1\r\n" + host + "A : b\r\n\r\n", 400},
      {"folded header", "GET /get HTTP/1.1\r\n" + host + "A: b\r\n c\r\n\r\n", 200},
      {"path traversal", "GET /../../etc/passwd HTTP/1.1\r\n" + host + "\r\n", 400},
      {"escaped traversal", "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + host + "\r\n", 400},
      {"bad UTF-8", "GET /%ff%fe HTTP/1.1\r\n" + host + "\r\n", 400},
      {"long target", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n" + host + "\r\n", 414},
      {"large header", "GET /get HTTP/1.1\r\n" + host + "A: " + std::string(20000, 'a') + "\r\n\r\n", 431},
      {"many headers", "GET /get HTTP/1.1\r\n" + host + [] { std::string all; for (int i = 0; i < 2000; ++i) all += "A" + std::to_string(i) + ": b\r\n"; return all; }() + "\r\n", 431},
      {"endless request line", "GET /" + std::string(40000, 'a'), 431},
      {"unknown path", "GET /nothing HTTP/1.1\r\n" + host + "\r\n", 404},
      {"wrong method", "DELETE /get HTTP/1.1\r\n" + host + "\r\n", 405},
      {"invented method", "BREW /get HTTP/1.1\r\n" + host + "\r\n", 405},
      {"options", "OPTIONS /get HTTP/1.1\r\n" + host + "\r\n", 204},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    HttpConnection connection(bare.port);
    const HttpAnswer answer = connection.ask(row.request);
    CHECK(answer.status == row.status);
    if (answer.status >= 400) CHECK(answer.headers.at("content-type") == "application/problem+json");
    if (row.status == 405 || row.status == 204) CHECK(answer.headers.at("allow") == "GET, HEAD, OPTIONS");
  }
  CHECK(http_get(bare.port, "/get").status == 200);   // still well
}

TEST_CASE("slow and silent peers are cut") {
  Bare bare;
  bare.route("POST", "/echo", Lane::quick, BodyKind::memory, echo);
  bare.route("GET", "/large", Lane::quick, BodyKind::none, [](const Request&) { return text(std::string(64 * 1024 * 1024, 'x')); });
  bare.start();
  const auto refused = [&](const char* reason) { return bare.registry.counter(daemon::metrics::kHttpRefused, {reason}).value(); };
  SUBCASE("a header byte by byte") {
    HttpConnection connection(bare.port);
    const auto began = Clock::now();
    while (Clock::now() - began < 5s && connection.send("G")) {
      connection.more(100ms);
      if (connection.ended()) break;
    }
    CHECK(Clock::now() - began < 3s);
    CHECK(refused("slow_header") == 1);
  }
  SUBCASE("a body that stops") {
    HttpConnection connection(bare.port);
    connection.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
    CHECK(ends_within(connection, 3s));
    CHECK(refused("slow_body") == 1);
  }
  SUBCASE("a body that trickles") {
    HttpConnection connection(bare.port);
    connection.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
    const auto began = Clock::now();
    while (Clock::now() - began < 6s && connection.send("x")) {
      connection.more(100ms);
      if (connection.ended() || !connection.buffer().empty()) break;
    }
    CHECK(Clock::now() - began < 4s);
    CHECK(refused("slow_body") == 1);
  }
  SUBCASE("a connection without a request") {
    HttpConnection connection(bare.port);
    CHECK(ends_within(connection, 4s));
  }
  SUBCASE("a reader that does not read") {
    HttpConnection connection(bare.port);
    connection.send(http_text("GET", "/large"));
    for (const auto began = Clock::now(); refused("slow_reader") == 0 && Clock::now() - began < 20s;) std::this_thread::sleep_for(20ms);
    std::size_t got = 0;
    while (connection.more(1s)) {
      got += connection.buffer().size();
      connection.buffer().clear();
    }
    CHECK(got < 64 * 1024 * 1024);
    CHECK(refused("slow_reader") == 1);
  }
}

TEST_CASE("a thousand connections: as many as allowed are served, the rest is told so") {
  rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlimit wanted = {std::min<rlim_t>(files.rlim_max, 4096), files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &wanted);
  api::HttpConfig settings = test_config();
  settings.limits.connections = 600;
  settings.limits.idle_s = 30;
  Bare bare(settings);
  bare.route("GET", "/x", Lane::quick, BodyKind::none, echo);
  bare.start();
  std::vector<HttpConnection> connections;
  for (int i = 0; i < 1000; ++i) connections.emplace_back(bare.port);
  int served = 0, told = 0, cut = 0;
  for (HttpConnection& connection : connections) {
    const HttpAnswer answer = connection.ask(http_text("GET", "/x"));
    served += answer.status == 200;
    told += answer.status == 503;
    cut += answer.status == 0;
  }
  CHECK(served == 600);
  CHECK(told >= 64);
  CHECK(told + cut == 400);
  connections.clear();
  for (int i = 0; i < 100 && bare.registry.gauge(daemon::metrics::kHttpConnections).value() > 0; ++i) std::this_thread::sleep_for(20ms);
  CHECK(bare.registry.gauge(daemon::metrics::kHttpConnections).value() == 0);
  CHECK(http_get(bare.port, "/x").status == 200);
}

TEST_CASE("slow work on one lane stops no other; a full lane answers 503") {
  api::HttpConfig settings = test_config();
  settings.limits.slow_threads = 1;
  settings.limits.waiting = 2;
  Bare bare(settings);
  std::mutex mutex;
  std::condition_variable open;
  bool go = false;
  std::atomic<int> inside = 0;
  bare.route("GET", "/slow", Lane::slow, BodyKind::none, [&](const Request&) {
    ++inside;
    std::unique_lock lock(mutex);
    open.wait(lock, [&] { return go; });
    return text("done");
  });
  bare.route("GET", "/quick", Lane::quick, BodyKind::none, echo);
  bare.start();
  std::vector<HttpConnection> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back(bare.port);
    waiting.back().send(http_text("GET", "/slow"));
    if (i == 0)
      while (inside == 0) std::this_thread::sleep_for(1ms);
  }
  const auto began = Clock::now();
  CHECK(http_get(bare.port, "/quick").status == 200);
  CHECK(Clock::now() - began < 2s);   // the slow lane stands still until the end of this test
  const HttpAnswer full = http_get(bare.port, "/slow");
  CHECK(full.status == 503);
  CHECK(full.headers.count("retry-after") == 1);
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  open.notify_all();
  for (HttpConnection& connection : waiting) CHECK(connection.answer().body == "done");
}

TEST_CASE("bodies in memory together stay below their limit") {
  api::HttpConfig settings = test_config();
  settings.limits.memory_bytes = 1024 * 1024;
  settings.limits.stall_s = 5;
  Bare bare(settings);
  bare.route("POST", "/echo", Lane::quick, BodyKind::memory, [](const Request& request) { return text(std::to_string(request.body.size())); }, 1024 * 1024);
  bare.start();
  HttpConnection holder(bare.port);
  holder.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 800000\r\n\r\nabc");
  std::this_thread::sleep_for(100ms);
  const HttpAnswer busy = http_post(bare.port, "/echo", std::string(500'000, 'x'));
  CHECK(busy.status == 503);
  CHECK(busy.headers.count("retry-after") == 1);
  holder.send(std::string(800'000 - 3, 'x'));
  CHECK(holder.answer().body == "800000");
  for (int i = 0; i < 5; ++i) CHECK(http_post(bare.port, "/echo", std::string(500'000, 'x')).body == "500000");   // given back each time
}

TEST_CASE("a fault inside a handler is one answer") {
  Bare bare;
  bare.route("GET", "/throw", Lane::quick, BodyKind::none, [](const Request&) -> Response { throw std::runtime_error("secret path"); });
  bare.start();
  HttpConnection connection(bare.port);
  for (int i = 0; i < 3; ++i) CHECK(connection.ask(http_text("GET", "/throw")).status == 500);
}

TEST_CASE("stop: running requests end, idle connections close, and all within two seconds") {
  Bare bare;
  std::atomic<bool> inside = false;
  bare.route("GET", "/slow", Lane::slow, BodyKind::none, [&](const Request&) {
    inside = true;
    std::this_thread::sleep_for(300ms);
    return text("done");
  });
  bare.start();
  HttpConnection idle(bare.port), running(bare.port), half(bare.port);
  idle.ask(http_text("GET", "/none"));
  half.send("GET /slow HTT");
  running.send(http_text("GET", "/slow"));
  while (!inside) std::this_thread::sleep_for(1ms);
  const auto began = Clock::now();
  CHECK(bare.server->stop());
  CHECK(Clock::now() - began < 2s);
  const HttpAnswer answer = running.answer();
  CHECK(answer.body == "done");
  CHECK(answer.closed);
  CHECK(ends_within(idle, 1s));
  CHECK_FALSE(HttpConnection(bare.port).connected());
}

TEST_CASE("stop returns in time even when a handler hangs") {
  Bare bare;
  std::atomic<bool> inside = false, go = false;
  bare.route("GET", "/hang", Lane::slow, BodyKind::none, [&](const Request&) {
    inside = true;
    while (!go) std::this_thread::sleep_for(5ms);
    return text("late");
  });
  bare.start();
  HttpConnection connection(bare.port);
  connection.send(http_text("GET", "/hang"));
  while (!inside) std::this_thread::sleep_for(1ms);
  const auto began = Clock::now();
  CHECK_FALSE(bare.server->stop());
  CHECK(Clock::now() - began < 3s);   // 1.9 s, and what a busy machine takes to wake a thread
  go = true;
}

TEST_CASE("an address in use is an error that names it") {
  Bare first;
  first.start();
  Bare second;
  second.config.listen[0].port = first.port;
  auto started = api::Server::start(second.config, second.routes, second.hub, second.registry);
  // SO_REUSEADDR lets nobody bind to a port that is listened on.
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().message().find(std::to_string(first.port)) != std::string::npos);
}

TEST_CASE("many clients at once get their own answers") {
  Bare bare;
  bare.route("POST", "/echo", Lane::quick, BodyKind::memory, echo);
  bare.start();
  std::atomic<int> wrong = 0, good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      HttpConnection connection(bare.port);
      for (int i = 0; i < 200; ++i) {
        const std::string body = std::to_string(t) + ":" + std::string(static_cast<std::size_t>(i * 37 % 5000), 'x');
        (connection.ask(http_text("POST", "/echo", "", body)).body == "POST /echo " + body ? good : wrong)++;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(good == 1600);
}
