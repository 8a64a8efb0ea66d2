// The last lines of a source as one text in its row: "offset number length\n" and the bytes of the line, for each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/spool.hpp"

namespace triage::daemon {

// The last ones of what does not fit into 4 KiB.
std::string text_of_tail(const std::vector<SpoolLine>& lines);
// What stands there as long as it is well formed.
std::vector<SpoolLine> lines_of_tail(std::string_view text);

}  // namespace triage::daemon
