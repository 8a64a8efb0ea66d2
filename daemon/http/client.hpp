// Outgoing messages: HTTP(S) requests and mails through SMTP(S), with time-outs and size limits. The only user of libcurl.
// Certificates are verified, redirects are not followed, other protocols are refused, proxies of the environment are not used, and every
// message has a connection of its own: a request is never repeated by the library behind our back. Called by the alert sinks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::daemon {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "POST";
  std::string url;                     // http or https
  HttpHeaders headers;                 // without line ends
  std::string body;
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;                 // names in small letters
  std::string body;                    // at most ClientSettings::response_bytes
  bool cut = false;                    // the body was longer

  // The first header of that name (small letters), or an empty text. Looks into this response.
  std::string_view header(std::string_view name) const;
};

struct MailRequest {
  std::string url;                     // smtp://host:port or smtps://host:port
  bool starttls = true;                // smtp: refuse to go on without TLS
  std::string user, password;          // user empty: no login
  std::string from;                    // bare addresses
  std::vector<std::string> to;
  std::string message;                 // RFC 5322, lines end with \r\n
};

struct MailResponse {
  int status = 0;                      // the last SMTP reply code
  std::string text;                    // of a refusal
};

// Why no answer came.
struct SendFault {
  bool maybe_delivered = false;        // the whole message had gone out: the peer may have taken it
  bool stopped = false;                // given up because the service stops
  std::string why;                     // names the host at most, never a path or a header
};

using HttpReply = std::variant<HttpResponse, SendFault>;
using MailReply = std::variant<MailResponse, SendFault>;

struct ClientSettings {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds timeout{15'000};       // of a whole message
  std::chrono::milliseconds stop_grace{1'000};     // a message under way may end within this time once the service stops
  std::size_t response_bytes = 64 * 1024;          // sinks answer with a few hundred bytes; the rest is not read
  std::string ca_file;                             // empty: the system's
  std::string proxy;                               // empty: none
  std::string user_agent = "triaged";
};

// May be used by several threads at a time.
class HttpClient {
 public:
  explicit HttpClient(ClientSettings settings);
  virtual ~HttpClient() = default;

  // Any status is an answer. Blocks for at most the time-out, or the grace once `stop` is requested.
  virtual HttpReply send(const HttpRequest& request, const std::stop_token& stop) const;
  virtual MailReply mail(const MailRequest& request, const std::stop_token& stop) const;

 private:
  ClientSettings settings_;
};

// A URL taken apart; what stands after the host is not kept.
struct UrlParts {
  std::string scheme, host;
  bool has_user = false;
  bool loopback = false;               // localhost, 127.0.0.0/8, ::1
};

// Errors: syntax. The message does not repeat the URL: it may be a secret.
parsers::Result<UrlParts> read_url(std::string_view url);

// The value of Retry-After in seconds: a number, or a date (RFC 9110, 10.2.3) against `now` in seconds since 1970.
// Between 0 and 3600; -1 where there is none or it cannot be read.
std::int64_t retry_after_seconds(std::string_view value, std::int64_t now);

}  // namespace triage::daemon
