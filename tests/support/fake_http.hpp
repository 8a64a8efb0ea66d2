// An HTTP/1.1 server that answers as the test says: statuses, headers, delays, broken connections, TLS.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "tests/support/loopback.hpp"

namespace triage::tests {

struct PeerRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;   // names in small letters
  std::string body;
};

struct PeerAnswer {
  enum class Cut { none, before_body_is_read, before_answer, inside_answer };
  int status = 200;
  std::string body = "ok";
  std::vector<std::pair<std::string, std::string>> headers;
  std::chrono::milliseconds delay{0};
  Cut cut = Cut::none;
};

class FakeHttp {
 public:
  using Behaviour = std::function<PeerAnswer(const PeerRequest&, std::size_t index)>;

  explicit FakeHttp(Behaviour behaviour, const Identity* identity = nullptr)
      : behaviour_(std::move(behaviour)), tls_(identity != nullptr), server_([this](Wire& wire) { serve(wire); }, identity) {}
  explicit FakeHttp(PeerAnswer answer) : FakeHttp([answer](const PeerRequest&, std::size_t) { return answer; }) {}

  std::string url(const std::string& path = "/") const {
    return std::string(tls_ ? "https" : "http") + "://127.0.0.1:" + std::to_string(server_.port()) + path;
  }
  int port() const { return server_.port(); }
  std::vector<PeerRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve(Wire& wire) {
    if (tls_ && !wire.start_tls(server_.context())) return;
    PeerRequest request;
    const std::string head = wire.read_until("\r\n\r\n");
    if (head.empty()) return;
    std::size_t at = head.find("\r\n");
    const std::string first = head.substr(0, at);
    request.method = first.substr(0, first.find(' '));
    request.target = first.substr(request.method.size() + 1, first.rfind(' ') - request.method.size() - 1);
    for (at += 2; at < head.size();) {
      const std::size_t end = head.find("\r\n", at);
      const std::string line = head.substr(at, end - at);
      at = end + 2;
      const std::size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[name] = line.substr(colon + 2);
    }
    std::size_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      index = requests_.size();
    }
    const PeerAnswer early = behaviour_(request, index);
    if (early.cut == PeerAnswer::Cut::before_body_is_read) return;
    request.body = wire.read_exactly(static_cast<std::size_t>(std::atoll(request.headers["content-length"].c_str())));
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const PeerAnswer answer = behaviour_(request, index);
    server_.wait(answer.delay);
    if (answer.cut == PeerAnswer::Cut::before_answer) return;
    std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " Status\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\nConnection: close\r\n";
    for (const auto& [name, value] : answer.headers) out += name + ": " + value + "\r\n";
    out += "\r\n" + answer.body;
    if (answer.cut == PeerAnswer::Cut::inside_answer) out.resize(12);
    wire.write(out);
  }

  Behaviour behaviour_;
  bool tls_;
  mutable std::mutex mutex_;
  std::vector<PeerRequest> requests_;
  Loopback server_;
};

}  // namespace triage::tests
