#include "daemon/http/http_config.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

using namespace triage;
using namespace triage::daemon::api;

namespace {

HttpConfig read(const std::string& text, std::vector<parsers::Error>& faults) {
  const auto node = parsers::read_yaml(text, "triaged.yaml");
  REQUIRE(node.ok());
  const parsers::YamlNode none;
  const parsers::YamlNode* section = node->find("http");
  return read_http_config(section ? *section : none, faults);
}

}  // namespace

TEST_CASE("without a section the service listens on loopback") {
  std::vector<parsers::Error> faults;
  const HttpConfig config = read("database: x\n", faults);
  CHECK(faults.empty());
  CHECK(config.enabled);
  REQUIRE(config.listen.size() == 1);
  CHECK(config.listen[0].loopback());
  CHECK_FALSE(read("http: off\n", faults).enabled);
}

TEST_CASE("all keys are read") {
  std::vector<parsers::Error> faults;
  const HttpConfig config = read(
      "http:\n"
      "  listen: ['127.0.0.1:9000', '[::]:9001', localhost]\n"
      "  tls: {certificate: /c.pem, key: /k.pem}\n"
      "  tokens:\n"
      "    - {name: ops, role: admin, token: env:X}\n"
      "    - {name: ship, role: push, token: file:/t}\n"
      "  loopback_needs_token: true\n"
      "  open_metrics: true\n"
      "  allowed_hosts: [Triage.Example]\n"
      "  upload_folder: /var/lib/triaged/uploads\n"
      "  limits: {connections: 64, upload_bytes: 1GiB, header_seconds: 2.5, push_threads: 1}\n",
      faults);
  for (const auto& fault : faults) MESSAGE(fault.message());
  CHECK(faults.empty());
  REQUIRE(config.listen.size() == 3);
  CHECK(config.listen[1].address == "::");
  CHECK(config.listen[1].port == 9001);
  CHECK(config.listen[2].port == 9477);
  CHECK(config.tokens[1].role == Role::push);
  CHECK(config.allowed_hosts[0] == "triage.example");
  CHECK(config.limits.connections == 64);
  CHECK(config.limits.upload_bytes == 1ULL << 30);
  CHECK(config.limits.header_s == 2.5);
}

TEST_CASE("every fault is told with its place") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {{"http: [1]\n", "has to be a map"},
                      {"http: {lisen: x}\n", "no key 'lisen'"},
                      {"http: {listen: 'example.com:80'}\n", "no address to listen on"},
                      {"http: {listen: '127.0.0.1:99999'}\n", "no address to listen on"},
                      {"http: {listen: '0.0.0.0:1', tokens: [{name: a, role: read, token: x}]}\n", "without TLS"},
                      {"http: {listen: '0.0.0.0:1', plain: true}\n", "no token"},
                      {"http: {tls: {certificate: a}}\n", "both certificate and key"},
                      {"http: {tokens: [{name: a, role: root, token: x}]}\n", "role of a token"},
                      {"http: {tokens: [{name: a, role: read}]}\n", "no value"},
                      {"http: {tokens: [{name: a, role: read, token: x}, {name: a, role: read, token: y}]}\n", "two tokens"},
                      {"http: {allowed_hosts: ['https://x']}\n", "no host name"},
                      {"http: {limits: {connections: 0}}\n", "connections has to be"},
                      {"http: {limits: {header_seconds: nan}}\n", "header_seconds has to be"},
                      {"http: {limits: {push_bytes: big}}\n", "push_bytes has to be"},
                      {"http: {open_metrics: 'true'}\n", "true or false"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    std::vector<parsers::Error> faults;
    read(row.text, faults);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].message().find(row.message) != std::string::npos);
    REQUIRE(faults[0].place());
    CHECK(faults[0].place()->line == 1);
  }
  std::vector<parsers::Error> faults;
  read("http:\n  lisen: x\n  plain: maybe\n  limits: {conections: 3}\n", faults);
  CHECK(faults.size() == 3);
}

TEST_CASE("secrets come from the environment, a file, or stand there") {
  ::setenv("TRIAGED_TEST_TOKEN", "0123456789abcdef", 1);
  CHECK(*read_secret("env:TRIAGED_TEST_TOKEN") == "0123456789abcdef");
  CHECK_FALSE(read_secret("env:TRIAGED_TEST_NO_SUCH").ok());
  CHECK_FALSE(read_secret("file:/no/such/file").ok());
  CHECK_FALSE(read_secret("short").ok());
  CHECK(read_secret("long enough to be a token").ok());
}
