// Where something stands in outside data. Owns its text, so it may travel with an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace triage::parsers {

struct Place {
  std::string file;                      // as the user gave it; inside an archive: archive!member
  std::optional<std::uint64_t> line;     // 1-based
  std::optional<std::uint64_t> column;   // 1-based, bytes
  std::optional<std::uint64_t> offset;   // bytes from the start of the file
  std::string source_line;               // the line itself, cut, or empty

  friend auto operator<=>(const Place&, const Place&) = default;
};

}  // namespace triage::parsers
