// Transport: the bytes of one connection, plain or TLS. Used on the I/O thread only; each operation calls back there, later, once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

namespace triage::daemon::api {

class Transport {
 public:
  using Done = std::function<void(bool ok, std::size_t size)>;   // not ok: the connection has ended
  virtual ~Transport() = default;

  // Before anything else. A plain transport calls back within the call.
  virtual void handshake(std::function<void(bool ok)> done) = 0;
  // room, bytes: stay as they are until the call back.
  virtual void read_some(std::span<char> room, Done done) = 0;
  virtual void write_some(std::string_view bytes, Done done) = 0;
  virtual void end_writing() = 0;      // the peer sees the end; reading goes on
  virtual void close() = 0;            // what is under way calls back with not ok
  virtual bool is_tls() const = 0;
};

}  // namespace triage::daemon::api
