// A configuration as a list of named texts: nested dicts, YAML maps and dataclass reprs become
// dotted paths ("model.num_layers"). The common form between the readers of layouts
// (python_literal, yaml_lines, argument blocks) and the tables of names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triage::parsers {

struct FlatSetting {
  std::string name;        // dotted path, as the program spells it; "" for a bare scalar
  std::string value;       // as printed, without the quotes of a quoted text; a list as "[a, b]"
  std::uint64_t line = 0;  // 1-based line of the source; 0 while unknown
  std::size_t offset = 0;  // bytes into the text that was read
};

using FlatSettings = std::vector<FlatSetting>;

inline constexpr std::size_t kFlatValueBytes =
    4096;  // a longer value is cut: settings are short, prompts and templates are not ours

// The values None, null, ~ and the empty text.
bool is_none(std::string_view value);
bool is_true(std::string_view value);
bool is_false(std::string_view value);

// The last part of a dotted path.
std::string_view leaf_of(std::string_view path);
// The path without its last part; "" if it has one part.
std::string_view parent_of(std::string_view path);

}  // namespace triage::parsers
