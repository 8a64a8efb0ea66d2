// Ranks that called different things where they should have called the same.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "signatures/verdict/recorder/job.hpp"
#include "signatures/verdict/recorder/stalled.hpp"

namespace triage::signatures {

struct CallDifference {
  std::set<std::size_t> odd;                        // who called something else than most; empty: no majority tells
  OpenCall at;                                      // the call that shows it
  std::vector<std::string> reasons;
};

// The earliest one of a collective (another operation, size or type at one number), else one between a send and its receive.
std::optional<CallDifference> find_difference(const RecordedJob& job, const StalledRanks& stalled);

}  // namespace triage::signatures
