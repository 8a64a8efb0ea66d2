#include "parsers/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <charconv>
#include <system_error>

namespace triage::parsers {

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::string_view trim_right(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view trim(std::string_view text) { return trim_right(trim_left(text)); }

// memmem: several times faster than std::string_view::find on log lines, where the first byte of a word is everywhere.
bool contains(std::string_view text, std::string_view part) {
  return part.empty() || (!text.empty() && ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr);
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> heads) {
  return std::any_of(heads.begin(), heads.end(), [&](std::string_view head) { return text.starts_with(head); });
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return to_lower(x) == to_lower(y); });
}

bool starts_with_ignoring_case(std::string_view text, std::string_view head) {
  return text.size() >= head.size() && equal_ignoring_case(text.substr(0, head.size()), head);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = to_lower(c);
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::int64_t> read_integer(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && is_digit(text[1])) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> read_double(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> take_integer(std::string_view& text) {
  if (text.empty() || !is_digit(text[0])) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool has_ansi(std::string_view text) {
  return text.find('\x1b') != std::string_view::npos || contains(text, "\xc2\x9b");
}

namespace {

// The position after the control sequence whose parameters begin at `i`. A sequence that does not end is dropped to its last
// parameter byte.
std::size_t end_of_csi(std::string_view text, std::size_t i) {
  while (i < text.size() && text[i] >= 0x20 && text[i] <= 0x3f) ++i;
  if (i < text.size() && text[i] >= 0x40 && text[i] <= 0x7e) ++i;
  return i;
}

std::size_t end_of_string_command(std::string_view text, std::size_t i) {
  constexpr std::size_t kLongest = 4096;  // a title or link; without an end the ESC alone is dropped
  const std::size_t last = std::min(text.size(), i + kLongest);
  for (std::size_t k = i; k < last; ++k) {
    if (text[k] == '\a') return k + 1;
    if (text[k] == '\x1b') return k + 1 < text.size() && text[k + 1] == '\\' ? k + 2 : k;
  }
  return i;
}

}  // namespace

std::string_view strip_ansi_into(std::string_view text, std::string& out) {
  out.clear();
  std::size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\xc2' && i + 1 < text.size() && text[i + 1] == '\x9b') {
      i = end_of_csi(text, i + 2);
    } else if (c != '\x1b') {
      out.push_back(c);
      ++i;
    } else if (i + 1 >= text.size()) {
      ++i;
    } else if (text[i + 1] == '[') {
      i = end_of_csi(text, i + 2);
    } else if (text[i + 1] == ']' || text[i + 1] == 'P' || text[i + 1] == '_' || text[i + 1] == '^') {
      i = end_of_string_command(text, i + 2);
    } else {
      ++i;
      while (i < text.size() && text[i] >= 0x20 && text[i] <= 0x2f) ++i;  // intermediate bytes, as in "ESC ( B"
      if (i < text.size() && text[i] >= 0x30 && text[i] <= 0x7e) ++i;
    }
  }
  return out;
}

std::string strip_ansi(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  strip_ansi_into(text, out);
  return out;
}

namespace {

// Length of the valid UTF-8 sequence at the front (Unicode 15, table 3-7), or 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xe0 && byte(1) < 0xa0) return 0;
    if (lead == 0xed && byte(1) > 0x9f) return 0;
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xf0 && byte(1) < 0x90) return 0;
    if (lead == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0)
      out += "\xef\xbf\xbd";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  return text.substr(0, lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);
}

std::uint32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character.front());
  std::uint32_t out = character.size() == 1 ? lead : lead & (0x7fU >> character.size());
  for (const char c : character.substr(1)) out = out << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return out;
}

std::string_view whole_head(std::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace triage::parsers
