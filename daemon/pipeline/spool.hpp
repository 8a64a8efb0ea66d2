// Spool: the few lines of a source that decide what is found in it: those with a finding, those of tracebacks, tables and
// configurations, the first ones, and the steps that are kept. Taken in again with the tail (Intake::tail) they give the findings of the
// whole source, so that this is all of a source that has to survive a restart.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/lines/spool_line.hpp"

namespace triage::daemon {

using parsers::SpoolLine;

class Spool {
 public:
  // Adds a line. Over the limit only its bytes are counted.
  void add(std::uint64_t offset, std::uint64_t number, std::string_view text);
  // The lines that came since the last call, in no order of offsets, some perhaps twice.
  std::vector<SpoolLine> take() { return std::exchange(lines_, {}); }
  bool empty() const { return lines_.empty(); }
  // Bytes that were added over all, and those that found no room.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t left_out() const { return left_out_; }

 private:
  static constexpr std::uint64_t kBytes = 8 << 20;  // limit: a rank's log with its configuration needs some 50 KB; a launcher's with those of all ranks a few MB
  std::vector<SpoolLine> lines_;
  std::uint64_t bytes_ = 0, left_out_ = 0;
};

// Sorted by offset, each line once (the longer text of two: a line may have grown).
std::vector<SpoolLine> in_order(std::vector<SpoolLine> lines);

class BlockScanner;
class Intake;
// Takes the lines (in_order) into a fresh Intake, as blocks of lines that follow one another.
void replay(const std::vector<SpoolLine>& lines, BlockScanner& scanner, Intake& intake);

}  // namespace triage::daemon
