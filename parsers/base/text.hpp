// Small pieces of text handling over string_view. Bytes, not characters: nothing here depends on a locale.
// Views that come back look into the argument.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triage::parsers {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_alnum(char c) { return is_digit(c) || is_alpha(c); }
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// Without white space (space, \t, \n, \v, \f, \r) at the ends.
std::string_view trim(std::string_view text);
std::string_view trim_left(std::string_view text);
std::string_view trim_right(std::string_view text);

bool contains(std::string_view text, std::string_view part);
bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> heads);
// Compares ASCII letters without case.
bool equal_ignoring_case(std::string_view a, std::string_view b);
bool starts_with_ignoring_case(std::string_view text, std::string_view head);
std::string lower(std::string_view text);

// Takes `head` off the front of `text`, if it stands there.
inline bool consume(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return true;
}

// All parts between separators, empty ones too; "" gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

// Number readers: the whole text (no blanks around it); empty for anything else and for what does not fit.
// read_integer: optional sign, decimal digits. read_double: also exponent, "nan", "inf"; independent of the locale.
std::optional<std::int64_t> read_integer(std::string_view text);
std::optional<double> read_double(std::string_view text);

// The decimal number at the front of `text` (no sign), taken off. Empty, and nothing taken, where there is none or it is too large.
std::optional<std::int64_t> take_integer(std::string_view& text);

// Does `text` hold ESC or the 8-bit CSI written as UTF-8?
bool has_ansi(std::string_view text);
// Without terminal control sequences: CSI (ESC [ ... letter), OSC (ESC ] ... BEL or ESC \), other two-byte escapes.
std::string strip_ansi(std::string_view text);
// The same into a buffer that is used again; returns a view of it.
std::string_view strip_ansi_into(std::string_view text, std::string& out);

// Valid UTF-8: each byte that is part of no valid sequence becomes U+FFFD. Overlong forms and surrogates are not valid.
std::string repair_utf8(std::string_view text);
bool is_utf8(std::string_view text);

// Of valid UTF-8 that is not empty: the first character, and the number of that character.
std::string_view first_character(std::string_view text);
std::uint32_t code_point(std::string_view character);
// The first bytes of the text, at most so many, not cut within a character.
std::string_view whole_head(std::string_view text, std::size_t most);

}  // namespace triage::parsers
