#include "parsers/base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace triage::parsers {

namespace {

constexpr std::size_t kNameBytes = 64;   // limit: names of ours have at most half of it
constexpr std::size_t kEdits = 3;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string_view meant_name(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = kEdits + 1;
  if (name.size() > kNameBytes) return best;
  for (const std::string_view candidate : known)
    if (const std::size_t edits = edit_distance(name, candidate); edits < least) {
      least = edits;
      best = candidate;
    }
  return best;
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  if (const std::string_view best = meant_name(name, known); !best.empty()) return "did you mean '" + std::string(best) + "'?";
  std::string all;
  for (const std::string_view candidate : known) all += (all.empty() ? "" : ", ") + std::string(candidate);
  return "known: " + all;
}

}  // namespace triage::parsers
