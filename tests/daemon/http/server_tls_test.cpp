// TLS, and tokens over connections.
#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include <fstream>

#include "tests/support/http_fixture.hpp"
#include "tests/support/loopback.hpp"

using namespace triage;
using namespace triage::tests;

namespace {

std::string ask_over_tls(int port, const std::string& request, int version = 0) {
  HttpConnection connection(port);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (version != 0) SSL_CTX_set_max_proto_version(context, version);
  SSL* tls = SSL_new(context);
  SSL_set_fd(tls, connection.descriptor());
  std::string out;
  if (SSL_connect(tls) == 1) {
    SSL_write(tls, request.data(), static_cast<int>(request.size()));
    char room[8192];
    for (int got; (got = SSL_read(tls, room, sizeof room)) > 0;) out.append(room, static_cast<std::size_t>(got));
  }
  SSL_free(tls);
  SSL_CTX_free(context);
  return out;
}

}  // namespace

TEST_CASE("TLS is spoken, old versions and plain text are refused, the certificate can be changed") {
  const std::string folder = std::filesystem::temp_directory_path() / ("triage-tls-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const Identity& identity) {
    std::ofstream(folder + "/c.pem") << identity.certificate;
    std::ofstream(folder + "/k.pem") << identity.key;
  };
  write(make_identity("IP:127.0.0.1"));
  api::HttpConfig config = test_config();
  config.certificate = folder + "/c.pem";
  config.key = folder + "/k.pem";
  {
    HttpFixture fixture(config);
    const std::string request = http_text("GET", "/healthz", "Connection: close\r\n");
    CHECK(ask_over_tls(fixture.port, request).starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(ask_over_tls(fixture.port, request, TLS1_1_VERSION).empty());
    HttpConnection plain(fixture.port);
    CHECK(plain.ask(request).status == 0);
    CHECK(ask_over_tls(fixture.port, request).starts_with("HTTP/1.1 200 OK\r\n"));
    write(make_identity("DNS:other"));
    CHECK(fixture.server->reload_tls().ok());
    CHECK(ask_over_tls(fixture.port, request).starts_with("HTTP/1.1 200 OK\r\n"));
    std::ofstream(folder + "/k.pem") << make_identity("DNS:third").key;   // of another certificate
    CHECK_FALSE(fixture.server->reload_tls().ok());
    CHECK(ask_over_tls(fixture.port, request).starts_with("HTTP/1.1 200 OK\r\n"));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("tokens and origins over a connection") {
  api::HttpConfig config = test_config();
  config.loopback_needs_token = true;
  config.tokens = {{"ops", api::Role::admin, "admin-token-0123456789"}, {"eye", api::Role::read, "read-token-0123456789"}};
  HttpFixture fixture(config);
  const std::string admin = "Authorization: Bearer admin-token-0123456789\r\n", eye = "Authorization: Bearer read-token-0123456789\r\n";
  const HttpAnswer none = http_get(fixture.port, "/api/v1/incidents");
  CHECK(none.status == 401);
  CHECK(none.headers.at("www-authenticate").starts_with("Bearer"));
  CHECK(http_get(fixture.port, "/api/v1/incidents", eye).status == 200);
  CHECK(http_get(fixture.port, "/metrics").status == 401);
  CHECK(http_get(fixture.port, "/metrics", eye).status == 200);
  CHECK(http_get(fixture.port, "/healthz").status == 200);
  const std::string json = "Content-Type: application/json\r\n", body = R"({"match":{"node":"n"},"reason":"r","duration":"1h"})";
  CHECK(http_post(fixture.port, "/api/v1/silences", body, json + eye).status == 403);
  CHECK(http_post(fixture.port, "/api/v1/silences", body, json + admin).status == 201);
  HttpFixture open;
  CHECK(http_post(open.port, "/api/v1/silences", body, json).status == 201);
  CHECK(http_post(open.port, "/api/v1/silences", body, json + "Origin: https://evil.example\r\n").status == 403);
  CHECK(http_post(open.port, "/api/v1/silences", body, "Content-Type: text/plain\r\n").status == 415);
  HttpConnection rebound(open.port);
  CHECK(rebound.ask("GET /api/v1/incidents HTTP/1.1\r\nHost: evil.example\r\n\r\n").status == 421);
}
