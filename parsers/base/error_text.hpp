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

// Many lines, each ended by '\n'. Control characters of outside text are shown as '?'. `weight` stands in front: "error", "warning".
std::string error_text(const Error& error, std::string_view weight = "error");
std::string error_text(const std::vector<Error>& errors, std::string_view weight = "error");

// The same for a log or a status, as one line without an end: WHAT: WHY (FILE:LINE:COLUMN); while WHAT WAS DONE; WHAT TO DO. The source line is left out.
std::string error_line(const Error& error);

// By file, line and column; errors without a place first, else in the order that they were in.
void sort_by_place(std::vector<Error>& errors);

// The first ones of each file, so that people can read them, and for the rest of a file one error that counts them.
std::vector<Error> first_of_each_file(const std::vector<Error>& errors);

// The stable name of a code ("io", "syntax", ...).
std::string_view error_code_name(ErrorCode code);

}  // namespace triage::parsers
