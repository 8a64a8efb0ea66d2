// The name that was probably meant: for messages about unknown keys and values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triage::parsers {

// Edits (insert, remove, change one character) from one name to the other: Levenshtein's distance. Time is the product of both lengths.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known name that is at most three edits away and nearest; empty if there is none. A name longer than 64 bytes is near none.
std::string_view meant_name(std::string_view name, std::span<const std::string_view> known);

// "did you mean 'role'?" for the meant name, else "known: id, kind, role".
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

// The same for any list of names.
template <class Names>
std::string nearest_name(std::string_view name, const Names& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return nearest_name(name, std::span<const std::string_view>(views));
}

}  // namespace triage::parsers
