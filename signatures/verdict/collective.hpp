// Time-outs of collectives and flight recorder dumps compared over ranks: who waited, who did not come, who called something else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "signatures/verdict/diagnosis.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {

struct CollectiveJudgement {
  CollectiveFault fault;
  bool desync = false;                  // different operation or size at one sequence number
  const Item* witness = nullptr;        // the line that shows it best: the odd one out, else the first time-out
  std::vector<std::string> reasons;
  bool recorded = false;                // by flight recorder dumps, which know more than the lines of a log
  bool proven = true;                   // false: too few dumps to say that a culprit does not wait itself
  const Finding* evidence = nullptr;    // the culprit's dump, and its source
  std::size_t evidence_source = 0;
  std::vector<parsers::Frame> frames;   // of the culprit's last call, else of the call that was waited in; outermost first
};
// items: of one incident. world: ranks of the job, if known. Empty if no item carries a time-out with an operation or a rank.
std::optional<CollectiveJudgement> compare_collectives(const std::vector<Item>& items, const std::vector<SourceFindings>& sources,
                                                       std::optional<std::int64_t> world);

std::string ranks_text(const std::vector<int>& ranks);   // "rank 3", "ranks 0-2 and 5", at most 8 ranges

}  // namespace triage::signatures
