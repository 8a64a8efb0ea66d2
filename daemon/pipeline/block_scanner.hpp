// BlockScanner: the part of Intake that needs no order, so that blocks of one source can be scanned by several threads at once.
#pragma once

#include <memory>
#include <vector>

#include "daemon/pipeline/block_cutter.hpp"
#include "daemon/pipeline/knowledge.hpp"

namespace triage::daemon {

struct ScannedBlock {
  Block block;
  std::vector<signatures::Candidate> candidates;  // the first `count` count
  std::size_t count = 0;
  std::vector<std::uint64_t> newlines_before;     // '\n' in the block before candidate i
  std::uint64_t newlines = 0;                     // in the whole block
};

// One a thread.
class BlockScanner {
 public:
  explicit BlockScanner(const Knowledge& knowledge) : matcher_(knowledge.rules) {}
  // Fills everything but `block`.
  void scan(ScannedBlock& block);
  signatures::Matcher& matcher() { return matcher_; }

 private:
  signatures::Matcher matcher_;
};

}  // namespace triage::daemon
