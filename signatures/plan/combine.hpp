// Two or three changes together, where one is not enough.
#pragma once

#include <functional>
#include <vector>

#include "signatures/plan/candidate.hpp"

namespace triage::signatures {

struct Combination {
  std::vector<const Candidate*> parts;          // in the order in which they are applied
  std::vector<parsers::RunConfig> before;       // the configuration that each of them changes
  Need need;                                    // of all together
  int weight = 0;
};

// The combination of two, else of three, that fits and has the highest weight; where none fits, the one that comes nearest. Candidates
// that change the same setting are not combined. Fewer than two parts: there is nothing to combine.
Combination best_combination(const std::vector<Candidate>& candidates, const Forecast& forecast, const parsers::RunConfig& config, const Facts& facts);

// The fix that the combination is. render: puts the forms of a change for this run into candidate.apply, in a scope.
Fix combined(const Combination& combination, const Forecast& forecast, const Facts& facts, const std::function<bool(Candidate&, const Scope&)>& render);

}  // namespace triage::signatures
