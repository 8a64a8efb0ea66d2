#include "daemon/pipeline/spool.hpp"

#include <algorithm>

#include "daemon/pipeline/block_scanner.hpp"
#include "daemon/pipeline/intake.hpp"

namespace triage::daemon {

void Spool::add(std::uint64_t offset, std::uint64_t number, std::string_view text) {
  if (bytes_ + text.size() > kBytes) {
    left_out_ += text.size();
    return;
  }
  bytes_ += text.size();
  lines_.push_back({offset, number, std::string(text)});
}

std::vector<SpoolLine> in_order(std::vector<SpoolLine> lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const SpoolLine& a, const SpoolLine& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.text.size() > b.text.size();
  });
  lines.erase(std::unique(lines.begin(), lines.end(), [](const SpoolLine& a, const SpoolLine& b) { return a.offset == b.offset; }), lines.end());
  return lines;
}

void replay(const std::vector<SpoolLine>& lines, BlockScanner& scanner, Intake& intake) {
  ScannedBlock scanned;
  for (std::size_t i = 0; i < lines.size();) {
    Block& block = scanned.block;
    block = Block{};
    block.offset = lines[i].offset;
    intake.skip_to(lines[i].number - 1);
    for (std::uint64_t next = block.offset; i < lines.size() && lines[i].offset == next && block.bytes.size() < BlockCutter::kBlockBytes; ++i) {
      block.bytes.insert(block.bytes.end(), lines[i].text.begin(), lines[i].text.end());
      next = lines[i].offset + lines[i].text.size();
    }
    block.size = block.bytes.size();
    scanner.scan(scanned);
    intake.take(scanned, scanner.matcher());
  }
}

}  // namespace triage::daemon
