// Gate: who a request comes from and whether it may go on, before its body is read. Pure but for the tokens it holds.
//   Tokens: "Authorization: Bearer ..." compared by digest in constant time. On a loopback connection none is needed, unless the configuration
//     says so or a proxy has forwarded the request (then its outside caller is not this host).
//   Host (DNS rebinding): a request without a token has to name an address, localhost or an allowed host. A page of another site that has its
//     name resolve to this host still sends that name. Who has a token does not come from such a page.
//   Origin (cross-site requests): a browser says where a page came from; another site may change nothing and read no API.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/http_config.hpp"
#include "daemon/http/message.hpp"
#include "daemon/http/problem.hpp"

namespace triage::daemon::api {

class Gate {
 public:
  // tokens: with their secrets resolved.
  Gate(const HttpConfig& config, const std::vector<HttpToken>& tokens);

  // Sets request.role. A problem: answer it and do not call the handler. route may be null (no such path): only the checks of Host and Origin.
  std::optional<Problem> check(Request& request, const Route* route) const;
  // The token's name for the log, or empty.
  std::string caller(const Request& request) const;

 private:
  struct Known {
    std::string name, digest;
    Role role;
  };
  const Known* known(std::string_view token) const;
  bool host_allowed(const std::string& host, bool is_address) const;
  std::vector<Known> tokens_;
  std::vector<std::string> hosts_;
  bool loopback_needs_token_, open_metrics_;
};

// Does the role hold what the route asks?
bool holds(Role have, Role need);

// SHA-256, 32 bytes.
std::string sha256(std::string_view bytes);

}  // namespace triage::daemon::api
