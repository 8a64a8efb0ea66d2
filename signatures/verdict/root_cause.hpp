// Chooses the cause among the findings of one incident.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "signatures/verdict/collective.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {

struct Choice {
  const Item* root = nullptr;
  std::vector<const Item*> same;      // other prints of the same fault (the launcher's table, Ray, other log)
  std::vector<const Item*> also;      // equal faults of other ranks
  std::vector<std::string> reasons;   // why this one, in words
  bool first_proven = true;           // false: nothing tells which rank was first
};

// items: of one incident, in order of the timeline, without those that were handled. Empty: there is nothing to blame.
std::optional<Choice> choose_root(const std::vector<Item>& items, const std::optional<CollectiveJudgement>& collective);

}  // namespace triage::signatures
