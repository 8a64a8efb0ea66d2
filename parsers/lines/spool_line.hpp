// SpoolLine: a line of a source that is kept because the diagnosis rests on it (daemon/pipeline/spool.hpp).
#pragma once

#include <cstdint>
#include <string>

namespace triage::parsers {

struct SpoolLine {
  std::uint64_t offset = 0, number = 0;  // of the line in its source: bytes; 1-based
  std::string text;                      // with its end, if it has one
};

}  // namespace triage::parsers
