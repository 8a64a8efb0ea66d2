// Published guidance that decides between fixes for a family of models, beyond the order that the catalogue gives each fix: what to try
// first, what to leave for later, and why. Cited in the answer.
#pragma once

#include <string>
#include <vector>

#include "signatures/plan/condition.hpp"

namespace triage::signatures {

struct Guidance {
  std::string fix;        // id of the catalogue
  Expression when;
  int add = 0;            // to the weight of the fix, as a boost
  std::string say;        // told with the fix
  std::string source;
};

// All of it; made once.
const std::vector<Guidance>& all_guidance();

// Of one fix, where its condition is true.
std::vector<const Guidance*> guidance_of(const std::string& fix, const Scope& scope);

}  // namespace triage::signatures
