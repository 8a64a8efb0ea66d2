// Lists of words, and whether one of them stands in a text or is the text.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "parsers/base/text.hpp"

namespace triage::signatures {

template <std::size_t N>
bool any_of(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return parsers::contains(text, part); });
}
template <std::size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

}  // namespace triage::signatures
