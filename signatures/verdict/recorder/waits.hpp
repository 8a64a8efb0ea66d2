// Whom each rank waits for, by the oldest call that is not complete on it.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "signatures/verdict/recorder/job.hpp"
#include "signatures/verdict/recorder/stalled.hpp"
#include "signatures/verdict/wait_graph.hpp"

namespace triage::signatures {

// Ranks are told by their index in the job.
struct RankWaits {
  WaitGraph graph;
  std::vector<std::set<std::size_t>> reached;           // who stands in a call that all its members have reached, by call
  std::map<std::size_t, OpenCall> not_taken;            // receiver -> who has sent to it, and gone on
};

// Who stands still itself waits for nobody.
RankWaits find_waits(const RecordedJob& job, const StalledRanks& stalled);

}  // namespace triage::signatures
