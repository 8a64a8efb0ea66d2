// Clocks of nodes differ. How far is read off steps that several sources print: a synchronous job ends a step everywhere at once.
#pragma once

#include <vector>

#include "signatures/match/match.hpp"

namespace triage::signatures {

// Moves the times of each source onto one clock, where at least three steps that it shares with the others show a steady difference
// of two seconds or more; the amount stands in SourceFindings::clock_ahead. Sources of one node have one clock. Times of sources
// without shared steps stay.
// limit: steps count as one event when printer and number agree, so two runs of one length in one call would be aligned. Differences
// beyond 26 hours (a clock and a time zone) are taken for such.
void align_clocks(std::vector<SourceFindings>& sources);

}  // namespace triage::signatures
