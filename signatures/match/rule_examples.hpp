// The examples that rules carry, run through the whole way of a line: literals, prefixes, patterns, conditions, silencing.
#pragma once

#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/attempt.hpp"
#include "signatures/match/matcher.hpp"

namespace triage::signatures {

// One error for each example that does not fire its rule with the expected captures (in a text of several lines: on any line) and for
// each counter-example that does, at the example's place and with the reason. Rules with
// faults (Signature::unread) are judged by what was read of them. Stops when the budget, which is of that set, is used up.
std::vector<parsers::Error> check_examples(const SignatureSet& set, TrialBudget& budget);

}  // namespace triage::signatures
