#include "daemon/runtime/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "parsers/base/text.hpp"

namespace triage::daemon {

Notify::Notify() {
  if (const char* const socket = std::getenv("NOTIFY_SOCKET")) socket_ = socket;
  const char* const usec = std::getenv("WATCHDOG_USEC");
  const char* const pid = std::getenv("WATCHDOG_PID");
  if (usec && (!pid || parsers::read_integer(pid) == ::getpid()))
    if (const auto wait = parsers::read_integer(usec); wait && *wait > 0) every_ = std::chrono::milliseconds(std::max<std::int64_t>(1, *wait / 2000));
}

// Datagram to a socket of the file system or (begins with @) the abstract name space, as sd_notify(3) describes it.
void Notify::send(const std::string& text) const {
  if (socket_.empty()) return;
  sockaddr_un address{};
  if (socket_.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  (void)::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address), size);
  ::close(fd);
}

void Notify::ready(const std::string& status) const { send("READY=1\nSTATUS=" + status); }
void Notify::status(const std::string& text) const { send("STATUS=" + text); }
void Notify::stopping() const { send("STOPPING=1"); }
void Notify::watchdog() const { send("WATCHDOG=1"); }

void Notify::reloading() const {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(time.tv_sec * 1'000'000LL + time.tv_nsec / 1000));
}

}  // namespace triage::daemon
