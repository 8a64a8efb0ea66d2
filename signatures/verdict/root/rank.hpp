// Which rank the root is of: the line's own, another print's, the launcher's table's, the source's.
#pragma once

#include "signatures/verdict/root/case.hpp"

namespace triage::signatures {

// Sets d.root.rank and what comes with it (local rank, pid, node), or leaves it empty where nothing tells; adds the reason in words.
// recorded: d.collective was judged by flight recorder dumps.
void find_rank(const Case& c, bool recorded, Diagnosis& d);

}  // namespace triage::signatures
