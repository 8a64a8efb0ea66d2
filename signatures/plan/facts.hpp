// What one diagnosis states, under the names that catalogue expressions use (condition.hpp).
#pragma once

#include "signatures/plan/condition.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Absent facts are not in the map. Texts are cut: they go into sentences.
Facts facts_of(const Diagnosis& diagnosis);


}  // namespace triage::signatures
