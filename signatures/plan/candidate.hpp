// A fix of the catalogue on its way into a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "signatures/plan/catalogue.hpp"
#include "signatures/plan/change.hpp"
#include "signatures/plan/forecast.hpp"

namespace triage::signatures {

// Does the change alone make the run fit? In the order in which fixes are proposed.
enum class Reach : std::uint8_t { enough, unknown, not_enough };

struct Candidate {
  const CatalogueFix* entry = nullptr;
  int weight = 0;
  std::vector<std::string> unknown;     // texts of preconditions that could not be checked
  std::vector<FixSetting> apply;
  std::optional<parsers::RunConfig> changed;
  std::optional<Need> need;             // of the changed configuration
  Reach reach = Reach::unknown;
};

}  // namespace triage::signatures
