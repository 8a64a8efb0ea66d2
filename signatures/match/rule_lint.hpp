// What a good rule needs beyond being readable: ids and kinds by the naming rules, a literal, bounded patterns, examples, a source,
// something to do about a root, and a reason to exist beside the other rules.
#pragma once

#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/attempt.hpp"
#include "signatures/match/matcher.hpp"

namespace triage::signatures {

// All faults, in order of place; of rules with faults (Signature::unread) what does not follow from those. `complete` false: there are
// rules that are not in the set, so an id that is not there may well be one. The rules are compared on their examples until the budget,
// which is of that set, is used up.
std::vector<parsers::Error> lint(const SignatureSet& set, TrialBudget& budget, bool complete = true);

// Does this fault make answers wrong (an id or kind that does not exist), or is the rule only poorer than it should be?
bool is_grave(const parsers::Error& fault);

}  // namespace triage::signatures
