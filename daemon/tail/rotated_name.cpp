#include "daemon/tail/rotated_name.hpp"

#include <algorithm>

#include "parsers/base/text.hpp"

namespace triage::daemon {

namespace {

constexpr std::string_view kPackedEndings[] = {".gz", ".zst", ".xz", ".bz2"};

std::string_view without_packed_ending(std::string_view name) {
  for (const std::string_view end : kPackedEndings)
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return name;
}

bool in_mark(char c) { return parsers::is_digit(c) || c == '-' || c == '.' || c == '_' || c == ':' || c == 'T' || c == 'Z'; }

bool is_mark(std::string_view text) {
  return !text.empty() && parsers::is_digit(text.front()) && (parsers::is_digit(text.back()) || text.back() == 'Z') &&
         std::all_of(text.begin(), text.end(), in_mark);
}

// logrotate counts to `rotate`, Python to backupCount; eight digits are a date.
bool is_counter(std::string_view mark) { return mark.size() <= 5 && std::all_of(mark.begin(), mark.end(), parsers::is_digit); }

bool separates(char c) { return c == '.' || c == '-'; }

}  // namespace

std::span<const std::string_view> packed_endings() { return kPackedEndings; }

bool has_packed_ending(std::string_view name) { return without_packed_ending(name).size() < name.size(); }

std::optional<RotatedName> read_rotated_name(std::string_view base, std::string_view name) {
  const std::string_view plain = without_packed_ending(name);
  if (base.empty() || plain.size() < base.size() + 2 || !plain.starts_with(base) || !separates(plain[base.size()])) return std::nullopt;
  const std::string_view mark = plain.substr(base.size() + 1);
  if (!is_mark(mark)) return std::nullopt;
  return RotatedName{mark, plain.size() < name.size()};
}

std::vector<std::string_view> rotated_bases(std::string_view name) {
  std::vector<std::string_view> out;
  const std::string_view plain = without_packed_ending(name);
  for (std::size_t at = 1; at + 1 < plain.size(); ++at)
    if (separates(plain[at]) && is_mark(plain.substr(at + 1))) out.push_back(plain.substr(0, at));
  return out;
}

bool rotated_later(std::string_view a, std::string_view b) {
  if (is_counter(a) != is_counter(b)) return is_counter(a);   // dates stay from an older setting
  if (!is_counter(a)) return a > b;
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::vector<std::string> earlier_names(std::string_view name) {
  std::vector<std::string> out;
  const std::string_view plain = without_packed_ending(name);
  if (plain.size() < name.size()) out.emplace_back(plain);
  for (const std::string_view base : rotated_bases(name)) {
    const std::string_view mark = plain.substr(base.size() + 1);
    if (const auto number = parsers::read_integer(mark); number && is_counter(mark) && *number > 1) {
      const std::string before = std::string(plain.substr(0, base.size() + 1)) + std::to_string(*number - 1);
      if (plain.size() < name.size()) out.push_back(before + std::string(name.substr(plain.size())));
      out.push_back(before);
    }
    out.emplace_back(base);
  }
  return out;
}

}  // namespace triage::daemon
