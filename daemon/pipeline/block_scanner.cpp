#include "daemon/pipeline/block_scanner.hpp"

#include "daemon/pipeline/newlines.hpp"

namespace triage::daemon {

void BlockScanner::scan(ScannedBlock& block) {
  const std::string_view text = block.block.text();
  block.count = matcher_.scan(text, block.candidates);
  block.newlines_before.resize(block.count);
  std::size_t counted = 0;
  std::uint64_t newlines = 0;
  for (std::size_t i = 0; i < block.count; ++i) {
    const std::size_t begin = block.candidates[i].begin;
    newlines += count_newlines(text.substr(counted, begin - counted));
    counted = begin;
    block.newlines_before[i] = newlines;
  }
  block.newlines = newlines + count_newlines(text.substr(counted));
}

}  // namespace triage::daemon
