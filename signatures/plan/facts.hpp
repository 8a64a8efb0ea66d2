// What one diagnosis states, under the names that catalogue expressions use (condition.hpp).
#pragma once

#include "signatures/plan/condition.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Absent facts are not in the map. Texts are cut: they go into sentences.
Facts facts_of(const Diagnosis& diagnosis);

// The run's data are made up (Megatron's --mock-data, Megatron Bridge's Mock... data sets).
bool uses_mock_data(const parsers::RunConfig& config);

}  // namespace triage::signatures
