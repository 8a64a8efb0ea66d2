// Is an input text at all? And the words for those that are not.
#pragma once

#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::daemon {

// Bytes that are no text: neither UTF-8 nor white space. NUL bytes do not count (a log that was truncated under its writer has many).
bool looks_binary(std::string_view head);
parsers::Error binary_error(const std::string& name);

}  // namespace triage::daemon
