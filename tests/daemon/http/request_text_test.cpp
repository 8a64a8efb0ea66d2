#include "daemon/http/request_text.hpp"

#include <doctest/doctest.h>

#include "daemon/http/json_view.hpp"

using namespace triage::daemon;
using namespace triage::daemon::api;

TEST_CASE("targets are decoded, and what could leave the path is refused") {
  struct Row {
    const char* text;
    const char* path;   // null: refused
  };
  const Row rows[] = {{"/", "/"},
                      {"/api/v1/incidents?x=1", "/api/v1/incidents"},
                      {"/a%20b/c", "/a b/c"},
                      {"http://host:1/x?y", "/x"},
                      {"https://host", "/"},
                      {"/x#fragment", "/x"},
                      {"/a/", "/a/"},
                      {"", nullptr},
                      {"*", nullptr},
                      {"a", nullptr},
                      {"//", nullptr},
                      {"/a//b", nullptr},
                      {"/../etc/passwd", nullptr},
                      {"/a/%2e%2e/b", nullptr},
                      {"/a/%2E", nullptr},
                      {"/a%2fb", nullptr},
                      {"/a%5cb", nullptr},
                      {"/a%00b", nullptr},
                      {"/a%zz", nullptr},
                      {"/a%4", nullptr},
                      {"/%ff", nullptr},
                      {"/?a=%ff", nullptr},
                      {"/?a=%0a", nullptr},
                      {"http:///x", nullptr},
                      {"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", nullptr}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const auto target = read_target(row.text);
    REQUIRE(target.ok() == (row.path != nullptr));
    if (row.path) CHECK(target->path == row.path);
  }
  CHECK_FALSE(read_target("/" + std::string(kTargetBytes, 'a')).ok());
  const auto target = read_target("/a?b=c+d&e=%26&f&=g&&b=2");
  REQUIRE(target.ok());
  CHECK(target->query == std::vector<std::pair<std::string, std::string>>{{"b", "c d"}, {"e", "&"}, {"f", ""}, {"", "g"}, {"b", "2"}});
}

TEST_CASE("host names and addresses of Host") {
  struct Row {
    const char* text;
    const char* host;   // null: malformed
    int port;
    bool address;
  };
  const Row rows[] = {{"localhost:80", "localhost", 80, false},  {"Triage.Example.COM.", "triage.example.com", 0, false}, {"127.0.0.1", "127.0.0.1", 0, true},
                      {"[::1]:9477", "::1", 9477, true},         {"[fe80::1%eth0]", nullptr, 0, false},                   {"::1", nullptr, 0, false},
                      {"host:0", nullptr, 0, false},             {"host:65536", nullptr, 0, false},                       {"host:", nullptr, 0, false},
                      {"host:+80", nullptr, 0, false},           {"a b", nullptr, 0, false},                              {"user@host", nullptr, 0, false},
                      {"", nullptr, 0, false},                   {"[::1", nullptr, 0, false},                             {"[::1]x", nullptr, 0, false},
                      {"127.0.0.1.evil.example", "127.0.0.1.evil.example", 0, false}, {"1.2.3.999", "1.2.3.999", 0, false}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const auto authority = read_authority(row.text);
    REQUIRE(authority.has_value() == (row.host != nullptr));
    if (!row.host) continue;
    CHECK(authority->host == row.host);
    CHECK(authority->port.value_or(0) == row.port);
    CHECK(authority->is_address == row.address);
  }
  CHECK_FALSE(read_origin("null"));
  CHECK_FALSE(read_origin("https://a/b"));
  CHECK(read_origin("HTTPS://a:8443")->authority.port == 8443);
}

TEST_CASE("times and spans") {
  const auto shown = [](const char* text) {
    const auto time = read_time(text);
    return time ? time_text(*time) : std::string("none");
  };
  CHECK(shown("2026-12-01T13:19:02Z") == "2026-12-01T13:19:02Z");
  CHECK(shown("2026-12-01T13:19:02.5+02:00") == "2026-12-01T11:19:02.5Z");
  CHECK(shown("1700000000") == "2023-11-14T22:13:20Z");
  for (const char* bad : {"", "yesterday", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-12-01T13:19:02", "2026-12-01T25:00:00Z", "1e300", "nan", "-1", "2026-12-01T13:19:02.Z"}) CHECK(shown(bad) == "none");
  CHECK(read_duration_s("24h") == 86400);
  CHECK(read_duration_s("90") == 90);
  for (const char* bad : {"", "h", "-1h", "0s", "1w", "99999d", "9223372036854775807d"}) CHECK_FALSE(read_duration_s(bad).has_value());
}

TEST_CASE("a page place survives its text, and forged ones are refused") {
  const triage::parsers::TimePoint time(std::chrono::microseconds(1700000000123456));
  const auto place = read_page_place(page_place(time, "id:with:colons \xc3\xa4"));
  REQUIRE(place);
  CHECK(place->first == time);
  CHECK(place->second == "id:with:colons \xc3\xa4");
  for (const char* bad : {"", "!!", "AAAA", "____", "MTIz"}) CHECK_FALSE(read_page_place(bad).has_value());
}

TEST_CASE("names of uploads are for show") {
  CHECK(shown_name("../../etc/passwd") == "passwd");
  CHECK(shown_name("C:\\logs\\a.log") == "a.log");
  CHECK(shown_name("") == "upload");
  CHECK(shown_name("..") == "upload");
  CHECK(shown_name("a\nb\x1b[31m").find('\n') == std::string::npos);
  CHECK(shown_name(std::string(400, '\xc3')).size() <= 255);
}

TEST_CASE("lists of codings") {
  CHECK(list_allows("gzip, deflate", "gzip"));
  CHECK(list_allows("br;q=1.0, GZIP;q=0.5", "gzip"));
  CHECK_FALSE(list_allows("gzip;q=0", "gzip"));
  CHECK_FALSE(list_allows("gzip;q=0, *", "gzip"));
  CHECK(list_allows("*", "gzip"));
  CHECK_FALSE(list_allows("", "gzip"));
}

TEST_CASE("texts are compared to their end") {
  CHECK(equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "abd"));
  CHECK_FALSE(equal_in_constant_time("abc", "ab"));
}
