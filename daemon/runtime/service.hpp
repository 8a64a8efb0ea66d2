// Service: all parts of `triage serve`, wired. Data flows one way: files, pushed lines and the system's logs (Watching, PushIntake,
// SystemIntake) -> NewsQueue -> Desk -> store and outbox in one transaction -> AlertSender; the API reads the store.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.hpp"
#include "daemon/http/service_view.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon {

class Service {
 public:
  // config_path: read again by reload(); "" : none. Errors: all that stand in the way, the service does not start.
  static parsers::Result<std::unique_ptr<Service>> start(ServiceConfig config, std::string config_path);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Configuration and rules anew. Refused as a whole when something is wrong: what runs goes on, health says why. One caller at a time.
  // Returns the faults.
  std::vector<parsers::Error> reload();
  // A file of the configuration or the rules has changed since the last reload.
  bool wants_reload();
  // Takes no more in, stores what was taken, within about `time`. False: a thread waits for a file system that does not answer; then the
  // process has to end without destroying this object.
  bool stop(std::chrono::milliseconds time);

  api::Health health() const;
  // One line for the service manager.
  std::string status_line() const;
  // Ports of the HTTP server, in the order of the configuration.
  std::vector<int> ports() const;

 private:
  struct Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace triage::daemon
