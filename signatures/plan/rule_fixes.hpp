// The fixes that rules name, against the catalogue.
#pragma once

#include <span>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/signature.hpp"
#include "signatures/plan/catalogue.hpp"

namespace triage::signatures {

// One fault for each name in a rule's `fixes` that is neither the id nor the family of a fix, with the name that was probably meant.
std::vector<parsers::Error> unknown_fixes(std::span<const Signature> rules, std::span<const CatalogueFix> catalogue);

}  // namespace triage::signatures
