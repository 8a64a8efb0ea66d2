// One order over the findings of all sources of a job attempt: items with the best time that is known for each line.
#pragma once

#include <vector>

#include "signatures/verdict/incident.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {

// Items of the findings of the sources, in the order: time, source, line. A line without a time has that of the last line before it
// in its source that has one (or of the first one after); a source without any time comes last. The sources must outlive the items.
std::vector<Item> make_timeline(const std::vector<SourceFindings>& sources);

}  // namespace triage::signatures
