// The texts of a request that outsiders write: target, query, Host, Origin, tokens in lists, times, page places. Pure, so that it is fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon::api {

// Limits on what a request may hold, besides the sizes of HttpLimits.
inline constexpr std::size_t kTargetBytes = 8 * 1024;      // of the request line; links with a shared plan are the longest
inline constexpr std::size_t kQueryFields = 64;
inline constexpr std::size_t kPathSegments = 16;

struct Target {
  std::string path;                                        // decoded, begins with '/', no "." or ".." segment, no empty segment inside
  std::vector<std::string> segments;                       // of the path, decoded, without the empty first one
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
  std::string authority;                                   // of an absolute target ("http://host:1/path"), or empty
};

// The target of a request line. Errors (syntax): no '/', a bad escape, a NUL or control character, "." or "..", bytes that are no UTF-8, too
// many parts (limit). An escaped slash in a segment is refused: no route has use for it.
parsers::Result<Target> read_target(std::string_view text);

// "%41+b" -> "Ab" with plus as blank where plus_is_blank. Empty for a bad escape.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank);

// The other way: letters, digits and the characters of `plain` stay, all else becomes %XX, byte by byte (RFC 3986).
std::string percent_encode(std::string_view text, std::string_view plain);

struct Authority {
  std::string host;           // lower case, without brackets and trailing dot
  std::optional<int> port;
  bool is_address = false;    // an IPv4 or IPv6 literal
};
// "name:1", "1.2.3.4", "[::1]:80". Empty for anything else.
std::optional<Authority> read_authority(std::string_view text);

// "http" or "https" and authority of an Origin header; empty for "null" and anything that is not of that form.
struct Origin {
  std::string scheme;
  Authority authority;
};
std::optional<Origin> read_origin(std::string_view text);

// Does a list like Accept-Encoding or If-None-Match allow the token? q=0 forbids; "*" allows.
bool list_allows(std::string_view list, std::string_view token);

// The media type of a Content-Type, lower case, without parameters.
std::string media_type(std::string_view content_type);

// RFC 3339 with a zone ("2026-12-01T13:19:02Z"), or seconds since 1970 (also with a fraction). Years 1970 to 9999.
std::optional<parsers::TimePoint> read_time(std::string_view text);

// "30s", "15m", "6h", "7d", or seconds; positive, at most ten years.
std::optional<std::int64_t> read_duration_s(std::string_view text);

// A place in a list of pages: time and id, as opaque text of letters, digits, '-' and '_'. read_page_place gives nothing for a forged text.
std::string page_place(parsers::TimePoint time, std::string_view id);
std::optional<std::pair<parsers::TimePoint, std::string>> read_page_place(std::string_view text);

// A name of a file that a client gave, fit to be shown: last part of a path, one line, valid UTF-8, at most 255 bytes; "upload" for nothing.
std::string shown_name(std::string_view name);

// Do the texts agree? Takes the same time wherever they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace triage::daemon::api
