// A log of one process names no rank: it is rank 0 of one.
#pragma once

#include "signatures/verdict/root/case.hpp"

namespace triage::signatures {

// Sets d.root.rank where the logs show one process and no other, with the reason. Not for faults that need several processes, nor for
// those of a node.
void rank_of_only_process(const Case& c, Diagnosis& d);

}  // namespace triage::signatures
