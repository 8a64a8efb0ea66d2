// Counting line ends: the one pass over all bytes beside the literal scan.
#pragma once

#include <cstdint>
#include <string_view>

namespace triage::daemon {

// Number of '\n' in the text.
std::uint64_t count_newlines(std::string_view text);

}  // namespace triage::daemon
