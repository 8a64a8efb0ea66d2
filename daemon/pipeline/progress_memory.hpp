// ProgressMemory: which of the millions of progress lines of a healthy log are worth keeping: the first ones, the last ones before and
// the first ones after each finding, and the last one. Every line of such a log is one, so they are no part of the literal pass: they
// are looked for only in the stretches where they may matter, and parsed only when they are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/spool.hpp"
#include "parsers/events/event.hpp"
#include "parsers/records/prefix.hpp"
#include "signatures/match/literal_scanner.hpp"

namespace triage::daemon {

class ProgressMemory {
 public:
  // scanner: over parsers::progress_literals(). spool: gets the lines that are kept, may be null. Both outlive this object.
  ProgressMemory(const signatures::LiteralScanner& scanner, int default_year, Spool* spool = nullptr)
      : scanner_(&scanner), spool_(spool), peeler_(default_year) {}

  // The next block of the source: whole lines, its offset, the number of its first line. The view must live until end_of_block().
  void begin_block(std::string_view text, std::uint64_t offset, std::uint64_t first_number);
  // A finding stands in the line that begins at this offset of the source: keep what stands before, and what comes.
  void settle(std::uint64_t offset);
  void end_of_block();
  std::vector<parsers::Progress> finish();
  // The last step so far.
  std::optional<parsers::Progress> last() const;
  // Lines that are kept only if a finding follows, or nothing does.
  std::vector<SpoolLine> pending_lines() const;

  // A kept line whose loss or gradient norm is no number; null if this line is none.
  struct BadLine {
    std::uint64_t number = 0, offset = 0;
    std::string text;
  };
  const BadLine* bad_line(std::uint64_t number) const;

 private:
  struct Seen {
    std::string_view text;
    std::uint64_t offset, number;
  };
  void scan_to(std::size_t end);
  // The line, when it is a step.
  std::optional<parsers::Progress> read(const Seen& seen);
  bool keep(const Seen& seen);

  static constexpr std::size_t kFirst = 8, kBefore = 8, kAfter = 16, kKept = 4096;
  static constexpr std::size_t kTail = 32 * 1024;     // bytes at the end of each block where the last step is looked for
  static constexpr std::size_t kReach = 1024 * 1024;  // bytes after a finding within which later steps are kept
  static constexpr std::size_t kTextBytes = 300;      // of a line kept as evidence
  const signatures::LiteralScanner* scanner_;
  Spool* spool_;
  signatures::LiteralScanner::Scratch scratch_;
  std::vector<signatures::LiteralHit> hits_;
  parsers::Peeler peeler_;
  std::string_view text_;
  std::uint64_t offset_ = 0;                // of text_ in the source
  std::size_t scanned_ = 0;                 // bytes of text_ that were looked through, or left out
  std::size_t counted_ = 0;                 // a line's beginning in text_,
  std::uint64_t number_ = 1;                // and its number
  std::vector<parsers::Progress> kept_;
  std::deque<Seen> seen_;                   // the last kBefore of this block
  struct Pending {
    parsers::Progress progress;
    SpoolLine line;                         // its text: only with a spool
  };
  std::vector<Pending> pending_;            // last ones of earlier blocks, not kept yet
  std::deque<BadLine> bad_;
  std::size_t wanted_ = kFirst;             // lines to keep as they come,
  std::uint64_t wanted_until_ = kReach;     // up to this offset of the source
};

}  // namespace triage::daemon
