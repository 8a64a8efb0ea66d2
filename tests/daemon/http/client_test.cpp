// The client against loopback servers that behave as bad days do.
#include "daemon/http/client.hpp"

#include <doctest/doctest.h>

#include "tests/support/fake_http.hpp"
#include "tests/support/fake_smtp.hpp"

using namespace triage::daemon;
using namespace triage::tests;
using namespace std::chrono_literals;
using Cut = PeerAnswer::Cut;

namespace {

ClientSettings quick() {
  ClientSettings settings;
  settings.connect_timeout = 500ms;
  settings.timeout = 700ms;
  settings.stop_grace = 200ms;
  settings.response_bytes = 4096;
  return settings;
}

HttpRequest post(const std::string& url, const std::string& body = "{}") {
  return {"POST", url, {{"Content-Type", "application/json"}}, body};
}

SendFault fault_of(const HttpReply& reply) {
  REQUIRE(std::holds_alternative<SendFault>(reply));
  return std::get<SendFault>(reply);
}

}  // namespace

TEST_CASE("a request arrives as it was made, and the answer comes back") {
  FakeHttp peer(PeerAnswer{201, "made", {{"Retry-After", "7"}, {"X-Other", "a: b"}}, 0ms, Cut::none});
  const HttpReply reply = HttpClient(quick()).send(post(peer.url("/a?b=c"), "{\"x\":1}"), {});
  REQUIRE(std::holds_alternative<HttpResponse>(reply));
  const auto& response = std::get<HttpResponse>(reply);
  CHECK(response.status == 201);
  CHECK(response.body == "made");
  CHECK_FALSE(response.cut);
  CHECK(response.header("retry-after") == "7");
  CHECK(response.header("x-other") == "a: b");
  CHECK(response.header("missing").empty());
  REQUIRE(peer.requests().size() == 1);
  const PeerRequest request = peer.requests()[0];
  CHECK(request.method == "POST");
  CHECK(request.target == "/a?b=c");
  CHECK(request.body == "{\"x\":1}");
  CHECK(request.headers.at("content-type") == "application/json");
  CHECK(request.headers.at("user-agent") == "triaged");
  CHECK(request.headers.count("expect") == 0);
}

TEST_CASE("a redirect is an answer, not a way") {
  FakeHttp target(PeerAnswer{});
  FakeHttp peer(PeerAnswer{302, "", {{"Location", target.url()}}, 0ms, Cut::none});
  const HttpReply reply = HttpClient(quick()).send(post(peer.url()), {});
  REQUIRE(std::holds_alternative<HttpResponse>(reply));
  CHECK(std::get<HttpResponse>(reply).status == 302);
  CHECK(target.requests().empty());
}

TEST_CASE("no answer: was it delivered?") {
  struct Row {
    const char* name;
    PeerAnswer answer;
    bool maybe;
  };
  const Row rows[] = {
      {"too slow", {200, "ok", {}, 3000ms, Cut::none}, true},
      {"cut after the request", {200, "ok", {}, 0ms, Cut::before_answer}, true},
      {"cut inside the status line", {200, "ok", {}, 0ms, Cut::inside_answer}, true},
      {"cut before the body is read", {200, "ok", {}, 0ms, Cut::before_body_is_read}, false},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      FakeHttp peer(row.answer);
      // The last one: more than the sockets' buffers hold, so that it cannot all have gone out.
      const std::string body(row.maybe ? 100 : 32 << 20, 'x');
      const SendFault fault = fault_of(HttpClient(quick()).send(post(peer.url(), body), {}));
      CHECK(fault.maybe_delivered == row.maybe);
      CHECK_FALSE(fault.stopped);
      CHECK_FALSE(fault.why.empty());
    }
  }
}

TEST_CASE("a peer that is not there was not told") {
  int port = 0;
  {
    FakeHttp gone(PeerAnswer{});
    port = gone.port();
  }
  const SendFault fault = fault_of(HttpClient(quick()).send(post("http://127.0.0.1:" + std::to_string(port) + "/secret-path"), {}));
  CHECK_FALSE(fault.maybe_delivered);
  CHECK(fault.why.find("secret-path") == std::string::npos);
}

TEST_CASE("TLS: the certificate has to be trusted and has to name the host") {
  const PeerFolder folder;
  const Identity good = make_identity("IP:127.0.0.1"), other = make_identity("DNS:elsewhere.example");
  ClientSettings settings = quick();
  settings.timeout = 3000ms;
  settings.connect_timeout = 3000ms;
  SUBCASE("trusted and named") {
    settings.ca_file = folder.write("ca.pem", good.certificate);
    FakeHttp peer([](const PeerRequest&, std::size_t) { return PeerAnswer{}; }, &good);
    const HttpReply reply = HttpClient(settings).send(post(peer.url()), {});
    REQUIRE(std::holds_alternative<HttpResponse>(reply));
    CHECK(std::get<HttpResponse>(reply).status == 200);
  }
  SUBCASE("not trusted") {
    FakeHttp peer([](const PeerRequest&, std::size_t) { return PeerAnswer{}; }, &good);
    const SendFault fault = fault_of(HttpClient(settings).send(post(peer.url()), {}));
    CHECK_FALSE(fault.maybe_delivered);
    CHECK(peer.requests().empty());
  }
  SUBCASE("trusted, but another name") {
    settings.ca_file = folder.write("ca.pem", other.certificate);
    FakeHttp peer([](const PeerRequest&, std::size_t) { return PeerAnswer{}; }, &other);
    const SendFault fault = fault_of(HttpClient(settings).send(post(peer.url()), {}));
    CHECK_FALSE(fault.maybe_delivered);
    CHECK(peer.requests().empty());
  }
}

TEST_CASE("sizes: a long answer is cut, a header with a line end is refused, other protocols are refused") {
  FakeHttp peer(PeerAnswer{200, std::string(1 << 20, 'y'), {}, 0ms, Cut::none});
  const HttpReply reply = HttpClient(quick()).send(post(peer.url()), {});
  REQUIRE(std::holds_alternative<HttpResponse>(reply));
  CHECK(std::get<HttpResponse>(reply).body.size() == 4096);
  CHECK(std::get<HttpResponse>(reply).cut);
  HttpRequest split = post(peer.url());
  split.headers.push_back({"X-A", "b\r\nX-Evil: 1"});
  CHECK_FALSE(fault_of(HttpClient(quick()).send(split, {})).maybe_delivered);
  CHECK_FALSE(fault_of(HttpClient(quick()).send(post("file:///etc/passwd"), {})).maybe_delivered);
  CHECK_FALSE(fault_of(HttpClient(quick()).send(post("gopher://127.0.0.1/x"), {})).maybe_delivered);
}

TEST_CASE("a stop ends a message under way after the grace, and does not wait for the time-out") {
  ClientSettings settings = quick();
  settings.timeout = 30'000ms;
  FakeHttp peer(PeerAnswer{200, "ok", {}, 30'000ms, Cut::none});
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(100ms);
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const SendFault fault = fault_of(HttpClient(settings).send(post(peer.url()), stop.get_token()));
  stopper.join();
  CHECK(fault.stopped);
  CHECK(fault.maybe_delivered);
  CHECK(std::chrono::steady_clock::now() - begin < 2s);
}

TEST_CASE("mail: taken, refused for now, refused for good, in doubt") {
  MailRequest mail{"", false, "", "", "triage@example.com", {"a@example.com", "b@example.com"}, "Subject: x\r\n\r\n.hidden dot\r\n"};
  SUBCASE("taken") {
    FakeSmtp peer({});
    mail.url = peer.url();
    const MailReply reply = HttpClient(quick()).mail(mail, {});
    REQUIRE(std::holds_alternative<MailResponse>(reply));
    CHECK(std::get<MailResponse>(reply).status == 250);
    REQUIRE(peer.mails().size() == 1);
    CHECK(peer.mails()[0].from == "<triage@example.com>");
    CHECK(peer.mails()[0].to == std::vector<std::string>{"<a@example.com>", "<b@example.com>"});
    CHECK(peer.mails()[0].message.find("..hidden dot") != std::string::npos);
  }
  SUBCASE("with a login") {
    FakeSmtp peer({});
    mail.url = peer.url();
    mail.user = "u";
    mail.password = "p";
    REQUIRE(std::holds_alternative<MailResponse>(HttpClient(quick()).mail(mail, {})));
    REQUIRE(peer.mails().size() == 1);
    CHECK(peer.mails()[0].login.find("AHUAcA==") != std::string::npos);   // base64 of \0u\0p
  }
  SUBCASE("refused") {
    for (const auto& [step, answer, status] : {std::tuple<std::string, std::string, int>{"RCPT", "451 4.7.1 greylisted", 451}, {"MAIL", "550 5.7.1 no", 550}, {"END", "452 full", 452}}) {
      FakeSmtp peer({{{step, answer}}, false, false, 0ms});
      mail.url = peer.url();
      const MailReply reply = HttpClient(quick()).mail(mail, {});
      REQUIRE(std::holds_alternative<MailResponse>(reply));
      CHECK(std::get<MailResponse>(reply).status == status);
      CHECK(std::get<MailResponse>(reply).text.find(answer.substr(4)) != std::string::npos);
    }
  }
  SUBCASE("one of two receivers is gone: the other one hears") {
    FakeSmtp peer({{{"RCPT a@example.com", "550 gone"}}, false, false, 0ms});
    mail.url = peer.url();
    const MailReply reply = HttpClient(quick()).mail(mail, {});
    REQUIRE(std::holds_alternative<MailResponse>(reply));
    CHECK(std::get<MailResponse>(reply).status == 250);
    CHECK(peer.mails().size() == 1);
  }
  SUBCASE("cut after the message") {
    FakeSmtp peer({{}, false, true, 0ms});
    mail.url = peer.url();
    const MailReply reply = HttpClient(quick()).mail(mail, {});
    REQUIRE(std::holds_alternative<SendFault>(reply));
    CHECK(std::get<SendFault>(reply).maybe_delivered);
  }
  SUBCASE("TLS is wanted and not offered: nothing is sent") {
    FakeSmtp peer({});
    mail.url = peer.url();
    mail.starttls = true;
    const MailReply reply = HttpClient(quick()).mail(mail, {});
    CHECK((std::holds_alternative<SendFault>(reply) && !std::get<SendFault>(reply).maybe_delivered));
    CHECK(peer.mails().empty());
  }
  SUBCASE("TLS, by STARTTLS and at once") {
    const PeerFolder folder;
    const Identity identity = make_identity("IP:127.0.0.1");
    ClientSettings settings = quick();
    settings.timeout = 3000ms;
    settings.ca_file = folder.write("ca.pem", identity.certificate);
    for (const bool at_once : {false, true}) {
      FakeSmtp peer({{}, true, false, 0ms}, &identity, at_once);
      mail.url = peer.url();
      mail.starttls = true;
      REQUIRE(std::holds_alternative<MailResponse>(HttpClient(settings).mail(mail, {})));
      REQUIRE(peer.mails().size() == 1);
      CHECK(peer.mails()[0].tls);
    }
  }
}

TEST_CASE("URLs: scheme, host, login, loopback") {
  struct Row {
    const char *url, *scheme, *host;
    bool user, loopback;
  };
  const Row rows[] = {{"https://hooks.slack.com/services/T/B/x", "https", "hooks.slack.com", false, false},
                      {"HTTP://LocalHost:9093/api", "http", "localhost", false, true},
                      {"http://127.1.2.3/", "http", "127.1.2.3", false, true},
                      {"http://127.0.0.1.example.com/", "http", "127.0.0.1.example.com", false, false},
                      {"http://[::1]:80/", "http", "[::1]", false, true},
                      {"https://u:p@example.com/", "https", "example.com", true, false},
                      {"smtp://mail.example.com:587", "smtp", "mail.example.com", false, false}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.url));
    const auto parts = read_url(row.url);
    REQUIRE(parts.ok());
    CHECK(parts->scheme == row.scheme);
    CHECK(parts->host == row.host);
    CHECK(parts->has_user == row.user);
    CHECK(parts->loopback == row.loopback);
  }
  for (const char* bad : {"", "nonsense", "https://", "https://a b/", "https://a/\n", "http://exa\xc3\xa4mple.com/"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(read_url(bad).ok());
  }
}

TEST_CASE("Retry-After: seconds, a date, and what cannot be read") {
  struct Row {
    const char* value;
    std::int64_t want;
  };
  const Row rows[] = {{"30", 30}, {" 0 ", 0}, {"1.2", 2}, {"999999999", 3600}, {"1e99", 3600}, {"-5", -1}, {"nan", -1}, {"", -1}, {"soon", -1},
                      {"Wed, 21 Oct 2015 07:28:30 GMT", 30}, {"Wed, 21 Oct 2015 07:00:00 GMT", 0}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.value));
    CHECK(retry_after_seconds(row.value, 1445412480) == row.want);   // 2015-10-21 07:28:00
  }
}
