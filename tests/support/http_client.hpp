// A plain HTTP client over a raw socket, for tests of the server: it sends what it is told, also what no proper client would.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace triage::tests {

struct HttpAnswer {
  int status = 0;                                   // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;       // names in small letters; of doubled ones the last
  std::string body;                                 // chunks joined
  bool closed = false;                              // the server said Connection: close, or ended the connection
};

class HttpConnection {
 public:
  explicit HttpConnection(int port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpConnection() { close(); }
  HttpConnection(HttpConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), in_(std::move(other.in_)) {}
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool connected() const { return connected_; }
  int descriptor() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  // False when the peer takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // More bytes into the buffer; false at the end, at a fault, or when none come in time.
  bool more(std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    pollfd wait = {fd_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) return false;
    char room[65536];
    const ssize_t got = ::recv(fd_, room, sizeof room, 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    in_.append(room, static_cast<std::size_t>(got));
    return true;
  }
  bool ended() const { return ended_; }
  std::string& buffer() { return in_; }

  // Reads one answer. head: of a HEAD request, so no body follows.
  HttpAnswer answer(bool head = false) {
    HttpAnswer out;
    std::size_t end;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) {
        out.closed = true;
        return out;
      }
    const std::string header = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    if (header.size() < 12) return out;
    out.status = std::atoi(header.c_str() + 9);
    for (std::size_t at = header.find("\r\n") + 2; at < header.size();) {
      const std::size_t line = header.find("\r\n", at);
      const std::size_t colon = header.find(':', at);
      if (colon < line) {
        std::string name = header.substr(at, colon - at);
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        out.headers[name] = header.substr(colon + 2, line - colon - 2);
      }
      at = line + 2;
    }
    out.closed = out.headers["connection"] == "close";
    if (out.status == 100) return answer(head);
    if (head || out.status == 204 || out.status == 304) return out;
    if (out.headers["transfer-encoding"] == "chunked") {
      for (;;) {
        std::size_t line;
        while ((line = in_.find("\r\n")) == std::string::npos)
          if (!more()) return out;
        const auto size = static_cast<std::size_t>(std::strtoul(in_.c_str(), nullptr, 16));
        while (in_.size() < line + 2 + size + 2)
          if (!more()) return out;
        out.body += in_.substr(line + 2, size);
        in_.erase(0, line + 2 + size + 2);
        if (size == 0) return out;
      }
    }
    const auto size = static_cast<std::size_t>(std::strtoul(out.headers["content-length"].c_str(), nullptr, 10));
    while (in_.size() < size)
      if (!more()) break;
    out.body = in_.substr(0, size);
    in_.erase(0, std::min(size, in_.size()));
    return out;
  }

  HttpAnswer ask(const std::string& request, bool head = false) {
    send(request);
    return answer(head);
  }

 private:
  int fd_ = -1;
  bool connected_ = false, ended_ = false;
  std::string in_;
};

// Text of a request. headers: whole lines with "\r\n".
inline std::string http_text(const std::string& method, const std::string& target, const std::string& headers = "", const std::string& body = "") {
  std::string out = method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers;
  if (!body.empty()) out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + body;
}

inline HttpAnswer http_get(int port, const std::string& target, const std::string& headers = "") {
  HttpConnection connection(port);
  return connection.ask(http_text("GET", target, headers));
}

inline HttpAnswer http_post(int port, const std::string& target, const std::string& body, const std::string& headers = "Content-Type: application/json\r\n") {
  HttpConnection connection(port);
  return connection.ask(http_text("POST", target, headers + (body.empty() ? "Content-Length: 0\r\n" : ""), body));
}

}  // namespace triage::tests
