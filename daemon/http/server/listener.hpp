// Listener: the I/O thread, the addresses that are listened on, and the sockets that come in. One of the users of asio.
#pragma once

#include <memory>
#include <vector>

#include "daemon/http/server/shared.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon::api {

class Listener {
 public:
  explicit Listener(Shared& shared);               // sets shared.post
  ~Listener();                                     // ends the connections that are left; the lanes have been joined before

  // Reads the certificate and binds all addresses. Errors: io.
  parsers::Status open();
  void run();                                      // starts the thread
  const std::vector<int>& ports() const;           // in the order of HttpConfig::listen
  // For new connections. Errors: io, and the old certificate stays.
  parsers::Status reload_tls();
  void close_all();                                // no new connections; running requests go on, idle connections end
  void stop();                                     // ends the thread and waits for it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace triage::daemon::api
