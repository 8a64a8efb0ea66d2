// What a good rule needs beyond being readable: ids and kinds by the naming rules, a literal, bounded patterns, examples, a source,
// something to do about a root, and a reason to exist beside the other rules.
#pragma once

#include <span>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/signature.hpp"

namespace triage::signatures {

// All faults, in the order of the rules. Rules with patterns that RE2 refuses are left to SignatureSet::compile.
std::vector<parsers::Error> lint(std::span<const Signature> rules);

// Does this fault make answers wrong (an id or kind that does not exist), or is the rule only poorer than it should be?
bool is_grave(const parsers::Error& fault);

}  // namespace triage::signatures
