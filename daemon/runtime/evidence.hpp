// Which stored incident a diagnosis belongs to: the same failure is judged again and again while its lines come in, and its root may move.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::daemon {

// Places of the lines that a diagnosis rests on: source, line.
using Evidence = std::set<std::pair<std::string, std::uint64_t>>;

Evidence evidence_of(const signatures::Diagnosis& diagnosis);
// The same out of a stored answer. Errors: syntax.
parsers::Result<Evidence> evidence_of_answer(std::string_view answer);

// For each of `found` the index in `known` of what it is the same failure as, or -1. Each known one is given once, to whom shares most.
std::vector<int> match_evidence(const std::vector<Evidence>& found, const std::vector<const Evidence*>& known);

}  // namespace triage::daemon
