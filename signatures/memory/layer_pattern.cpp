#include "signatures/memory/layer_pattern.hpp"

#include <string>

#include "parsers/base/text.hpp"

namespace triage::signatures::memory {
namespace {

constexpr std::size_t kMost = 1 << 14;  // entries

// One open bracket or parenthesis: what was summed up in it so far, and the last operand (a multiplication takes that one only).
struct Level {
  bool list = false;
  std::vector<bool> sum, last;
};

}  // namespace

std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::int64_t layers) {
  std::string plain;
  for (const char c : text)
    if (c != ' ' && c != '\'' && c != '"') plain += c;
  if (plain.empty() || layers <= 0 || layers > static_cast<std::int64_t>(kMost)) return std::nullopt;
  std::string_view rest = plain;
  if (parsers::is_digit(rest.front())) {
    const auto every = parsers::take_integer(rest);
    if (!every || *every <= 0 || !rest.empty()) return std::nullopt;
    std::vector<bool> pattern;
    for (std::int64_t i = 0; i < layers; ++i) pattern.push_back(i % *every == 0);
    return pattern;
  }
  std::vector<Level> levels(1);
  const auto settle = [](Level& level) {
    level.sum.insert(level.sum.end(), level.last.begin(), level.last.end());
    level.last.clear();
  };
  while (!rest.empty()) {
    const char c = rest.front();
    if (parsers::is_digit(c) && levels.back().list) {
      const auto value = parsers::take_integer(rest);
      if (!value || *value > 1 || levels.back().sum.size() >= kMost) return std::nullopt;
      levels.back().sum.push_back(*value == 1);
      continue;
    }
    rest.remove_prefix(1);
    if (c == '[' || c == '(') {
      if (levels.size() > 32 || levels.back().list) return std::nullopt;
      levels.push_back({});
      levels.back().list = c == '[';
    } else if (c == ']' || c == ')') {
      if (levels.size() < 2 || levels.back().list != (c == ']')) return std::nullopt;
      settle(levels.back());
      std::vector<bool> value = std::move(levels.back().sum);
      levels.pop_back();
      settle(levels.back());
      levels.back().last = std::move(value);
    } else if (c == '*') {
      const auto times = parsers::take_integer(rest);
      std::vector<bool>& last = levels.back().last;
      if (!times || *times < 0 || last.size() * static_cast<std::size_t>(*times) > kMost ||
          static_cast<std::size_t>(*times) > kMost)
        return std::nullopt;
      const std::vector<bool> once = std::move(last);
      last.clear();
      for (std::int64_t i = 0; i < *times; ++i) last.insert(last.end(), once.begin(), once.end());
    } else if (c == '+') {
      settle(levels.back());
    } else if (c != ',' || !levels.back().list) {
      return std::nullopt;
    }
  }
  if (levels.size() != 1) return std::nullopt;
  settle(levels.back());
  if (static_cast<std::int64_t>(levels.back().sum.size()) != layers) return std::nullopt;
  return std::move(levels.back().sum);
}

}  // namespace triage::signatures::memory
