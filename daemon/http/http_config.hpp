// The section `http:` of the configuration file: where the service listens, who may do what, and the limits of requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/http/message.hpp"
#include "parsers/base/result.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::daemon::api {

struct ListenAddress {
  std::string address = "127.0.0.1";       // IPv4 or IPv6 literal
  int port = 9477;                         // 0: any free one (tests)
  bool loopback() const;
  bool operator==(const ListenAddress&) const = default;
};

struct HttpToken {
  std::string name;                        // for the log; not secret
  Role role = Role::read;
  std::string secret;                      // env:NAME, file:PATH or the token itself
  bool operator==(const HttpToken&) const = default;
};

struct HttpLimits {
  std::uint32_t connections = 512;         // open at the same time; further ones are answered with 503
  std::uint32_t event_streams = 64;
  std::uint32_t waiting = 256;             // requests waiting for a thread, a lane
  std::uint64_t header_bytes = 16 * 1024;
  std::uint64_t json_bytes = 8 * 1024 * 1024;             // bodies of API calls: a plan with its log
  std::uint64_t push_bytes = 16 * 1024 * 1024;            // as they come; Loki's own default is 100 MiB, shippers send about 1 MiB
  std::uint64_t push_unpacked_bytes = 64 * 1024 * 1024;
  std::uint64_t upload_bytes = 2ULL * 1024 * 1024 * 1024; // a snapshot of a long run
  std::uint64_t memory_bytes = 256ULL * 1024 * 1024;      // bodies in memory together, unpacked ones too
  double header_s = 10;                    // for a whole header, from its first byte
  double idle_s = 60;                      // between requests of a connection
  double stall_s = 20;                     // without a byte of a body, or of an answer taken
  std::uint64_t slowest_bytes_per_s = 4096;// a body or an answer below that rate for long is cut
  unsigned quick_threads = 3, push_threads = 2, slow_threads = 2;
  bool operator==(const HttpLimits&) const = default;
};

struct HttpConfig {
  bool enabled = true;                     // `http: off`
  std::vector<ListenAddress> listen = {{}};
  std::string certificate, key;            // PEM files; empty: no TLS
  bool plain = false;                      // beyond loopback without TLS: something in front ends it
  std::vector<HttpToken> tokens;
  bool loopback_needs_token = false;
  bool open_metrics = false;               // /metrics without a token beyond loopback
  std::vector<std::string> allowed_hosts;  // names under which browsers reach the service, without port
  std::string upload_folder;               // empty: uploads are refused
  HttpLimits limits;
  bool operator==(const HttpConfig&) const = default;
};

// Adds every fault with its place. An absent section (kind null) is the default. Unknown keys are faults with the nearest known name.
HttpConfig read_http_config(const parsers::YamlNode& node, std::vector<parsers::Error>& faults);

// The token behind env:NAME, file:PATH or the literal. Errors: those of secret_of; conflict (shorter than is safe).
parsers::Result<std::string> read_secret(const std::string& reference);

}  // namespace triage::daemon::api
