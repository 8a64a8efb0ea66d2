// Waiter: one thread waits for descriptors, a time, or a call from another thread.
#pragma once

#include <chrono>
#include <span>

namespace triage::daemon {

class Waiter {
 public:
  // Throws std::system_error without descriptors.
  Waiter();
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Ends the wait that runs, or the next one. From any thread, or a signal handler.
  void wake() const noexcept;
  // Until one of the descriptors is readable or ended, wake() was called, or the time is over. Descriptors below 0 are passed over.
  void wait(std::span<const int> fds, std::chrono::milliseconds at_most) const;

 private:
  int fd_ = -1;
};

}  // namespace triage::daemon
