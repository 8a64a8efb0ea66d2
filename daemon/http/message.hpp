// Request and Response as handlers see them, and the routes that lead to handlers. No sockets here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/http/request_text.hpp"

namespace triage::daemon::api {

// What a caller may do; each role holds those before it, push apart: a shipper's token may push and nothing else.
enum class Role { none, push, read, admin };

struct Request {
  std::string method;
  Target target;
  std::vector<std::pair<std::string, std::string>> headers;   // names in lower case
  std::string body;                                           // of routes that take one in memory
  std::string body_file;                                      // of upload routes: path of a temporary file of ours
  std::uint64_t body_size = 0;
  std::vector<std::string> parameters;                        // parts of the path that the route's braces stand for, in order
  bool keep_alive = true;
  bool loopback = false;                                      // both ends of the connection are this host
  bool tls = false;
  Role role = Role::none;                                     // of the caller, set by the gate

  // First header of that name (lower case), or empty.
  std::string_view header(std::string_view name) const;
  bool has_header(std::string_view name) const;
  // First query field of that name; empty optional when there is none.
  std::optional<std::string_view> query(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::shared_ptr<const std::string> shared_body;             // instead of body: of files that many read
  bool close = false;                                         // no further request on this connection
  // Instead of a body: the events of the hub after this sequence, until the reader leaves.
  struct Events {
    std::uint64_t after = 0;
    bool gap = false;                                         // tell the reader first that events are missing
    std::string type_prefix;                                  // only events whose type begins so
  };
  std::optional<Events> events;

  std::string_view content() const { return shared_body ? std::string_view(*shared_body) : std::string_view(body); }
  void set(std::string name, std::string value);              // replaces a header of that name
};

// Which threads run a handler. at_once: on the I/O thread itself, so it must not block.
enum class Lane { at_once, quick, push, slow };
inline constexpr std::size_t kLanes = 4;

// unread: the handler refuses whatever comes, so the body is not waited for.
enum class BodyKind { none, memory, file, unread };

struct Route {
  std::string method;                                         // GET also answers HEAD
  std::string path;                                           // "/api/v1/incidents/{id}"
  Role role = Role::read;
  Lane lane = Lane::quick;
  BodyKind body = BodyKind::none;
  std::uint64_t body_limit = 0;                               // bytes as they come over the wire
  std::function<Response(const Request&)> handler;
  bool browser_page = false;                                  // may be opened from another site's link
};

class Routes {
 public:
  // Errors are mistakes of ours: two routes with the same method and form.
  void add(Route route);
  struct Found {
    const Route* route = nullptr;                             // null: none for that path, or not with that method
    std::vector<std::string> parameters;
    std::string allow;                                        // methods of that path, for 405 and OPTIONS; empty: no such path
  };
  Found find(std::string_view method, const Target& target) const;
  const std::vector<Route>& all() const { return routes_; }

 private:
  std::vector<Route> routes_;
  std::vector<std::vector<std::string>> forms_;               // segments of each route's path
};

// Reason phrase of a status.
std::string_view reason_phrase(int status);
// Status line and headers of an answer, with those that every answer has (Date is left to proxies; nosniff, no-store unless set,
// Referrer-Policy). Values with control characters are dropped. length: Content-Length; empty: chunked.
std::string response_head(const Response& response, std::optional<std::uint64_t> length, bool keep_alive);

}  // namespace triage::daemon::api
