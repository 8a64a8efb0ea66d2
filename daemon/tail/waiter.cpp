#include "daemon/tail/waiter.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

namespace triage::daemon {

Waiter::Waiter() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "a descriptor to wait on");
}

Waiter::~Waiter() { ::close(fd_); }

void Waiter::wake() const noexcept {
  const std::uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);   // full: it is woken already
}

void Waiter::wait(std::span<const int> fds, std::chrono::milliseconds at_most) const {
  std::vector<pollfd> all = {{fd_, POLLIN, 0}};
  for (const int fd : fds) all.push_back({fd, POLLIN, 0});   // poll() passes over negative ones
  const auto timeout = std::clamp<std::int64_t>(at_most.count(), 0, 3'600'000);
  (void)::poll(all.data(), all.size(), static_cast<int>(timeout));
  std::uint64_t calls = 0;
  (void)!::read(fd_, &calls, sizeof calls);
}

}  // namespace triage::daemon
