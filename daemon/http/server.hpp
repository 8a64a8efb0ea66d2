// Server: HTTP/1.1 on loopback or with TLS. One I/O thread parses and writes; handlers run on lanes of threads. It holds the limits: sizes, times,
// connections, memory. What the routes do is not its business. Its parts stand in daemon/http/server/.
//   Slow or silent peers are cut: a whole header within header_s, a body or an answer without progress for stall_s or below the slowest rate,
//   an idle connection after idle_s. Beyond the limit of connections a peer gets 503. Bodies in memory together stay below memory_bytes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/http/event_hub.hpp"
#include "daemon/http/http_config.hpp"
#include "daemon/http/message.hpp"
#include "daemon/metrics/registry.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon::api {

// An answered request, for the log. Called on the I/O thread: return at once.
struct AccessRecord {
  std::string_view method, path;        // path without its query; decoded
  int status = 0;
  std::string_view caller;              // name of the token, or empty
  double seconds = 0;
  std::uint64_t body_bytes = 0;
};

class Server {
 public:
  // Binds all addresses and starts the threads. Tokens' secrets are read here. routes, hub and registry outlive the server.
  // Errors: io (address in use, certificate, upload folder), not_found and conflict (tokens).
  static parsers::Result<std::unique_ptr<Server>> start(const HttpConfig& config, const Routes& routes, EventHub& hub, metrics::Registry& registry,
                                                        std::function<void(const AccessRecord&)> log = {});
  ~Server();                            // stops, and waits for handlers that still run
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Ports in the order of HttpConfig::listen.
  std::vector<int> ports() const;
  // Reads the certificate and key again, for new connections. The old ones stay when the new ones are wrong.
  parsers::Status reload_tls();
  // Takes no more connections, lets running requests end, cuts the rest. Returns within 2 s: true when no handler runs any more.
  bool stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace triage::daemon::api
