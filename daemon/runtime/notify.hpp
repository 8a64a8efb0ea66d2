// What the service manager is told (sd_notify): ready, status, watchdog, reloading, stopping. Without one nothing is sent.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace triage::daemon {

class Notify {
 public:
  // Reads NOTIFY_SOCKET and WATCHDOG_USEC of the environment.
  Notify();
  void ready(const std::string& status) const;
  void status(const std::string& text) const;
  void reloading() const;
  void stopping() const;
  void watchdog() const;
  // How often watchdog() has to be called at least; empty: not asked for. Half of what the manager waits.
  std::optional<std::chrono::milliseconds> watchdog_every() const { return every_; }

 private:
  void send(const std::string& text) const;
  std::string socket_;
  std::optional<std::chrono::milliseconds> every_;
};

}  // namespace triage::daemon
