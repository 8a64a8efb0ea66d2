// Which faults a run outlived, and where a job was started again within one log.
#pragma once

#include <vector>

#include "signatures/verdict/diagnosis.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {

struct Split {
  std::vector<std::vector<Item>> attempts;   // what each attempt died of, in order of the timeline; may be empty lists
  std::vector<Handled> handled;
};
// items: the timeline of the sources.
Split split_attempts(std::vector<Item> items, const std::vector<SourceFindings>& sources);

}  // namespace triage::signatures
