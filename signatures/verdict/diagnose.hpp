// From the findings of one attempt to its diagnosis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "signatures/verdict/diagnosis.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {

// items: what the attempt died of, in order of the timeline. Empty: there is no incident.
std::optional<Diagnosis> diagnose(const std::vector<Item>& items, const std::vector<SourceFindings>& sources, const std::string& job, int attempt);

}  // namespace triage::signatures
