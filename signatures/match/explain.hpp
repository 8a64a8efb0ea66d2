// Why the rules do or do not match a line, and the start of a new rule for it. Text for people.
#pragma once

#include <string>
#include <string_view>

#include "signatures/match/matcher.hpp"

namespace triage::signatures {

// For each line: what is left of it without prefixes, the literals that stand in it, and for each rule of these whether it matched (with
// captures) or which condition failed. Lines end with '\n'.
std::string explain(const SignatureSet& set, std::string_view line);

// A rule in YAML for such lines, to be completed by hand: the longest constant part as pattern, numbers and sizes as captures.
std::string new_rule(std::string_view line);

}  // namespace triage::signatures
