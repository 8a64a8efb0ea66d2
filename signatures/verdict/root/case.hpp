// What the steps from a chosen root to its kind, phase and rank look at.
#pragma once

#include <vector>

#include "signatures/verdict/diagnosis.hpp"
#include "signatures/verdict/item.hpp"
#include "signatures/verdict/root_cause.hpp"

namespace triage::signatures {

struct Case {
  const std::vector<Item>& items;              // of the attempt, in order of the timeline
  const std::vector<SourceFindings>& sources;
  const Choice& choice;
  const Item& root;                            // *choice.root
};

}  // namespace triage::signatures
