// The one renderer of errors for people:
//   error: WHAT
//     reason: WHY
//     --> FILE:LINE:COLUMN   (or FILE at byte OFFSET)
//      | the source line
//     while: WHAT WAS DONE
//     help: WHAT TO DO
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::parsers {

// Many lines, each ended by '\n'. Control characters of outside text are shown as '?'.
std::string error_text(const Error& error);
std::string error_text(const std::vector<Error>& errors);

// The stable name of a code ("io", "syntax", ...).
std::string_view error_code_name(ErrorCode code);

}  // namespace triage::parsers
