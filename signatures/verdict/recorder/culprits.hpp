// Who is at fault: the end of all waiting, and who is held up, idle or dead.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "signatures/verdict/recorder/job.hpp"
#include "signatures/verdict/recorder/peers.hpp"
#include "signatures/verdict/recorder/stalled.hpp"
#include "signatures/verdict/recorder/waits.hpp"

namespace triage::signatures {

// Ranks are told by their index in the job.
struct RecorderCulprits {
  std::set<std::size_t> ranks;
  std::vector<std::set<std::size_t>> one_of;            // of each set one rank is a culprit; the dumps do not tell which
  std::set<std::set<std::size_t>> circles;              // of them: who waits for one another by sends and receives
  std::vector<std::vector<std::size_t>> crossed;        // who waits for one another in collectives: calls in different orders
  std::map<std::size_t, CallsBehind> behind;            // culprit -> calls that it is behind its peers
  std::map<std::size_t, OpenCall> missed;               // idle culprit -> the earliest call that it did not make
};

RecorderCulprits find_culprits(const RecordedJob& job, const StalledRanks& stalled, const RankWaits& waits);

}  // namespace triage::signatures
