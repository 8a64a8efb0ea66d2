// Line: one line of a source, as the splitter hands it over.
#pragma once

#include <cstdint>
#include <string_view>

namespace triage::parsers {

// Looks into the splitter's (or the caller's) buffer: valid until the next chunk is fed.
// A physical line ends with '\n'; a '\r' inside it (progress bars) starts a new Line with the same number.
struct Line {
  std::uint64_t offset = 0;      // bytes from the start of the source to the first byte of text
  std::uint64_t number = 1;      // 1-based, counts '\n' only
  std::string_view text;         // without "\n", "\r\n"; raw bytes
  std::uint64_t cut_bytes = 0;   // bytes of this line that were dropped since it is longer than limits::kLineBytes
  bool unfinished = false;       // end of input without '\n'
};

}  // namespace triage::parsers
