// A file that was compiled into the executable (rules, fixes, schema). Static storage: views live for ever.
#pragma once

#include <string_view>

namespace triage::parsers {

struct EmbeddedFile {
  std::string_view path;  // relative to the folder that embedded it
  std::string_view text;
};

}  // namespace triage::parsers
