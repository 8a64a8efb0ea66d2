// Incident: the findings of one failure of one job attempt, over all of its sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "signatures/match/match.hpp"

namespace triage::signatures {

// A finding with its source. Index into Incident::sources.
struct SourcedFinding {
  std::size_t source = 0;
  Finding finding;
};

struct Incident {
  std::string job;
  int attempt = 1;
  std::vector<SourceFindings> sources;      // findings moved out into timeline; configuration, progress, memory stay here
  std::vector<SourcedFinding> timeline;     // by corrected time where known, else by source order
};

}  // namespace triage::signatures
