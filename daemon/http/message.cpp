#include "daemon/http/message.hpp"

#include <algorithm>
#include <cassert>

#include "parsers/base/text.hpp"

namespace triage::daemon::api {

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

bool Request::has_header(std::string_view name) const {
  return std::any_of(headers.begin(), headers.end(), [name](const auto& header) { return header.first == name; });
}

std::optional<std::string_view> Request::query(std::string_view name) const {
  for (const auto& [key, value] : target.query)
    if (key == name) return std::string_view(value);
  return std::nullopt;
}

void Response::set(std::string name, std::string value) {
  for (auto& [key, old] : headers)
    if (parsers::equal_ignoring_case(key, name)) {
      old = std::move(value);
      return;
    }
  headers.emplace_back(std::move(name), std::move(value));
}

void Routes::add(Route route) {
  assert(route.path.starts_with('/'));
  std::vector<std::string> form;
  if (route.path != "/")
    for (const std::string_view part : parsers::split(std::string_view(route.path).substr(1), '/')) form.emplace_back(part);
  routes_.push_back(std::move(route));
  forms_.push_back(std::move(form));
}

Routes::Found Routes::find(std::string_view method, const Target& target) const {
  Found found;
  bool has_get = false;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const std::vector<std::string>& form = forms_[i];
    // "/*" at the end takes all the rest: files of the page.
    const bool open_end = !form.empty() && form.back() == "*";
    if (open_end ? target.segments.size() + 1 < form.size() : target.segments.size() != form.size()) continue;
    std::vector<std::string> parameters;
    bool same = true;
    for (std::size_t k = 0; same && k < form.size() - (open_end ? 1 : 0); ++k) {
      if (form[k].starts_with('{'))
        parameters.push_back(target.segments[k]);
      else
        same = form[k] == target.segments[k];
    }
    if (!same) continue;
    if (open_end && !found.allow.empty()) continue;   // an exact route stands before the open one
    found.allow += (found.allow.empty() ? "" : ", ") + routes_[i].method;
    has_get = has_get || routes_[i].method == "GET";
    if (!found.route && (routes_[i].method == method || (method == "HEAD" && routes_[i].method == "GET"))) {
      found.route = &routes_[i];
      found.parameters = std::move(parameters);
    }
  }
  if (has_get) found.allow += ", HEAD";
  if (!found.allow.empty()) found.allow += ", OPTIONS";
  return found;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

std::string response_head(const Response& response, std::optional<std::uint64_t> length, bool keep_alive) {
  std::string out;
  out.reserve(320);
  out += "HTTP/1.1 " + std::to_string(response.status) + " ";
  out += reason_phrase(response.status);
  out += "\r\n";
  bool cache = false, policy = false;
  for (const auto& [name, value] : response.headers) {
    if (std::any_of(value.begin(), value.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) continue;
    out += name + ": " + value + "\r\n";
    cache = cache || parsers::equal_ignoring_case(name, "cache-control");
    policy = policy || parsers::equal_ignoring_case(name, "content-security-policy");
  }
  if (!cache) out += "Cache-Control: no-store\r\n";
  if (!policy) out += "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n";
  out += "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";
  if (response.status >= 200 && response.status != 204 && response.status != 304) {
    if (length)
      out += "Content-Length: " + std::to_string(*length) + "\r\n";
    else
      out += "Transfer-Encoding: chunked\r\n";
  }
  out += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

}  // namespace triage::daemon::api
