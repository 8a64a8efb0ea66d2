#include "daemon/http/request_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "daemon/config/fields.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::TimePoint;

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Error bad_target(std::string why) { return Error(ErrorCode::syntax, "the request's target cannot be read").because(std::move(why)); }

bool is_ipv4(std::string_view text) {
  const auto parts = parsers::split(text, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           const auto number = part.empty() || part.size() > 3 || !parsers::is_digit(part[0]) ? std::nullopt : parsers::read_integer(part);
           return number && *number <= 255;
         });
}

bool is_ipv6(std::string_view text) {
  return text.size() >= 2 && text.size() <= 45 && text.find(':') != std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) { return hex_digit(c) >= 0 || c == ':' || c == '.'; });
}

// Digits at the front as a number of exactly `width` digits.
std::optional<int> digits(std::string_view& text, std::size_t width) {
  if (text.size() < width) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    if (!parsers::is_digit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(width);
  return value;
}

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string base64url(std::string_view bytes) {
  std::string out;
  std::uint32_t held = 0;
  int bits = 0;
  for (const char c : bytes) {
    held = held << 8 | static_cast<unsigned char>(c);
    bits += 8;
    while (bits >= 6) {
      bits -= 6;
      out += kBase64[held >> bits & 63];
    }
  }
  if (bits > 0) out += kBase64[held << (6 - bits) & 63];
  return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string out;
  std::uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    const auto at = kBase64.find(c);
    if (at == std::string_view::npos) return std::nullopt;
    held = held << 6 | static_cast<std::uint32_t>(at);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>(held >> bits & 255);
    }
  }
  return out;
}

}  // namespace

std::string percent_encode(std::string_view text, std::string_view plain) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (parsers::is_alnum(c) || plain.find(c) != std::string_view::npos) out += c;
    else out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus_is_blank && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

Result<Target> read_target(std::string_view text) {
  if (text.size() > kTargetBytes) return Error(ErrorCode::limit, "the request's target is longer than " + std::to_string(kTargetBytes) + " bytes");
  Target target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!parsers::starts_with_ignoring_case(text, scheme)) continue;
    text.remove_prefix(scheme.size());
    const std::size_t slash = std::min(text.find('/'), text.size());
    target.authority = std::string(text.substr(0, slash));
    text.remove_prefix(slash);
    if (target.authority.empty()) return bad_target("it names no host");
    if (text.empty()) text = "/";
    break;
  }
  if (text.empty() || text[0] != '/') return bad_target("it does not begin with '/'");
  text = text.substr(0, text.find('#'));
  const std::size_t question = std::min(text.find('?'), text.size());
  std::string_view path = text.substr(0, question), query = text.substr(std::min(question + 1, text.size()));

  const auto parts = parsers::split(path.substr(1), '/');
  if (parts.size() > kPathSegments) return Error(ErrorCode::limit, "the request's path has more than " + std::to_string(kPathSegments) + " parts");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto segment = percent_decode(parts[i], false);
    if (!segment) return bad_target("an escape in the path is not %XX");
    const bool last = i + 1 == parts.size();
    if (segment->empty() && !last) return bad_target("a part of the path is empty");
    if (*segment == "." || *segment == ".." || segment->find('/') != std::string::npos || segment->find('\\') != std::string::npos)
      return bad_target("a part of the path is '.', '..' or holds a slash");
    if (has_control(*segment) || !parsers::is_utf8(*segment)) return bad_target("the path holds control characters or is no UTF-8");
    target.path += "/" + *segment;
    if (!(segment->empty() && last)) target.segments.push_back(std::move(*segment));
  }
  if (query.empty()) return target;
  for (const std::string_view field : parsers::split(query, '&')) {
    if (field.empty()) continue;
    if (target.query.size() >= kQueryFields) return Error(ErrorCode::limit, "the request's query has more than " + std::to_string(kQueryFields) + " fields");
    const std::size_t equals = std::min(field.find('='), field.size());
    auto name = percent_decode(field.substr(0, equals), true);
    auto value = percent_decode(field.substr(std::min(equals + 1, field.size())), true);
    if (!name || !value) return bad_target("an escape in the query is not %XX");
    if (has_control(*name) || has_control(*value) || !parsers::is_utf8(*name) || !parsers::is_utf8(*value))
      return bad_target("the query holds control characters or is no UTF-8");
    target.query.emplace_back(std::move(*name), std::move(*value));
  }
  return target;
}

std::optional<Authority> read_authority(std::string_view text) {
  Authority out;
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!is_ipv6(host)) return std::nullopt;
    out.is_address = true;
    if (!port.empty() && port[0] != ':') return std::nullopt;
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!port.empty()) {
    const auto number = port.size() > 6 || port.size() < 2 || !parsers::is_digit(port[1]) ? std::nullopt : parsers::read_integer(port.substr(1));
    if (!number || *number < 1 || *number > 65535) return std::nullopt;
    out.port = static_cast<int>(*number);
  }
  if (!out.is_address) {
    if (host.ends_with('.')) host.remove_suffix(1);
    if (host.empty() || host.size() > 253) return std::nullopt;
    if (!std::all_of(host.begin(), host.end(), [](char c) { return parsers::is_alnum(c) || c == '-' || c == '.' || c == '_'; })) return std::nullopt;
    out.is_address = is_ipv4(host);
  }
  out.host = parsers::lower(host);
  return out;
}

std::optional<Origin> read_origin(std::string_view text) {
  Origin out;
  for (const std::string_view scheme : {"http", "https"}) {
    const std::string head = std::string(scheme) + "://";
    if (!parsers::starts_with_ignoring_case(text, head)) continue;
    auto authority = read_authority(text.substr(head.size()));
    if (!authority) return std::nullopt;
    out.scheme = scheme;
    out.authority = std::move(*authority);
    return out;
  }
  return std::nullopt;
}

bool list_allows(std::string_view list, std::string_view token) {
  bool star = false;
  for (const std::string_view item : parsers::split(list, ',')) {
    const auto parts = parsers::split(item, ';');
    const std::string_view name = parsers::trim(parts[0]);
    bool zero = false;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      std::string_view parameter = parsers::trim(parts[i]);
      if (!parsers::consume(parameter, "q=") && !parsers::consume(parameter, "Q=")) continue;
      const auto weight = parsers::read_double(parameter);
      zero = !weight || !(*weight > 0);
    }
    if (parsers::equal_ignoring_case(name, token)) return !zero;
    if (name == "*") star = !zero;
  }
  return star;
}

std::string media_type(std::string_view content_type) { return parsers::lower(parsers::trim(content_type.substr(0, content_type.find(';')))); }

std::optional<TimePoint> read_time(std::string_view text) {
  using namespace std::chrono;
  if (text.size() > 40) return std::nullopt;
  if (const auto seconds = parsers::read_double(text)) {
    if (!std::isfinite(*seconds) || *seconds < 0 || *seconds > 253402300799.0) return std::nullopt;
    return TimePoint(microseconds(std::llround(*seconds * 1e6)));
  }
  const auto y = digits(text, 4);
  if (!y || *y < 1970 || !parsers::consume(text, "-")) return std::nullopt;
  const auto mo = digits(text, 2);
  if (!mo || !parsers::consume(text, "-")) return std::nullopt;
  const auto d = digits(text, 2);
  if (!d || text.empty() || (text[0] != 'T' && text[0] != 't' && text[0] != ' ')) return std::nullopt;
  text.remove_prefix(1);
  const auto h = digits(text, 2);
  if (!h || !parsers::consume(text, ":")) return std::nullopt;
  const auto mi = digits(text, 2);
  if (!mi || !parsers::consume(text, ":")) return std::nullopt;
  const auto s = digits(text, 2);
  if (!s || *h > 23 || *mi > 59 || *s > 60) return std::nullopt;
  std::int64_t fraction = 0;
  if (parsers::consume(text, ".")) {
    std::int64_t unit = 100'000;
    if (text.empty() || !parsers::is_digit(text[0])) return std::nullopt;
    for (; !text.empty() && parsers::is_digit(text[0]); text.remove_prefix(1), unit /= 10) fraction += unit * (text[0] - '0');
  }
  std::int64_t zone = 0;
  if (text == "Z" || text == "z") {
    text = {};
  } else {
    if (text.size() != 6 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
    const bool east = text[0] == '+';
    text.remove_prefix(1);
    const auto zh = digits(text, 2);
    if (!zh || !parsers::consume(text, ":")) return std::nullopt;
    const auto zm = digits(text, 2);
    if (!zm || *zh > 23 || *zm > 59) return std::nullopt;
    zone = (*zh * 60 + *zm) * (east ? 60 : -60);
  }
  const year_month_day date(year(*y), month(static_cast<unsigned>(*mo)), day(static_cast<unsigned>(*d)));
  if (!date.ok()) return std::nullopt;
  return TimePoint(sys_days(date)) + hours(*h) + minutes(*mi) + seconds(*s - zone) + microseconds(fraction);
}

std::optional<std::int64_t> read_duration_s(std::string_view text) {
  const bool bare = !text.empty() && parsers::is_digit(text.back());
  const auto read = read_duration(bare ? std::string(text) + "s" : std::string(text));
  if (!read || read->count() <= 0 || read->count() % 1000 != 0) return std::nullopt;
  return read->count() / 1000;
}

std::string page_place(TimePoint time, std::string_view id) {
  return base64url(std::to_string(time.time_since_epoch().count()) + ":" + std::string(id));
}

std::optional<std::pair<TimePoint, std::string>> read_page_place(std::string_view text) {
  if (text.empty() || text.size() > 512) return std::nullopt;
  const auto bytes = from_base64url(text);
  if (!bytes) return std::nullopt;
  const std::size_t colon = bytes->find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto time = parsers::read_integer(std::string_view(*bytes).substr(0, colon));
  std::string id = bytes->substr(colon + 1);
  if (!time || has_control(id) || !parsers::is_utf8(id)) return std::nullopt;
  return std::pair(TimePoint(std::chrono::microseconds(*time)), std::move(id));
}

std::string shown_name(std::string_view name) {
  if (const auto slash = name.find_last_of("/\\"); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out = parsers::visible(name);
  std::string_view cut = parsers::trim(out);
  if (cut.size() > 255) {
    cut = cut.substr(0, 255);
    while (!parsers::is_utf8(cut)) cut.remove_suffix(1);
  }
  if (cut.empty() || cut == "." || cut == "..") return "upload";
  return std::string(cut);
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  // Lengths are no secret of the caller's digests; contents are compared to the end.
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const volatile unsigned char x = static_cast<unsigned char>(a[i]), y = static_cast<unsigned char>(b[i]);
    difference |= static_cast<unsigned>(x ^ y);
  }
  return difference == 0;
}

}  // namespace triage::daemon::api
