// Fixes of the allocator, judged by the replay of the run's own requests where a snapshot lies beside the log.
#pragma once

#include <string_view>
#include <vector>

#include "signatures/memory/what_if.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// The replays that the plan and the diagnosis carry on. Empty where the recorded run was not out of memory in its replay.
std::vector<AllocatorWhatIf> allocator_what_ifs(const WhatIfs& replayed, const ReplayTrace& trace);

// What the replay adds to the weight of the fix `id`: up where it rescues the run, down where it does not help.
int replay_weight(const Diagnosis& diagnosis, std::string_view id, int weight);

// Saving, predicted peak and fits of the fix, and what the replay says in `why`: also that it would make this run worse.
void add_replay(Fix& fix, const Diagnosis& diagnosis);

}  // namespace triage::signatures
