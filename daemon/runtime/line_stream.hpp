// LineStream: an Intake for a source whose bytes come once and stand in no file: pushed streams, the kernel's log, the journal. Its offset
// counts the bytes that were given to it. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "daemon/pipeline/block_scanner.hpp"
#include "daemon/pipeline/intake.hpp"
#include "daemon/runtime/news.hpp"
#include "daemon/runtime/rules_in_force.hpp"
#include "daemon/runtime/worker.hpp"

namespace triage::daemon {

class LineStream {
 public:
  // kind: as WatchedRow::kind.
  LineStream(signatures::SourceInfo info, std::string kind, int default_year) : info_(std::move(info)), kind_(std::move(kind)), default_year_(default_year) {}

  // Goes on where an earlier run stopped.
  void restore(const db::WatchedRow& row);
  // text: whole lines, of any length together. scanner: of the calling thread and of the same rules. The spool that is stored is loaded when the
  // Intake has to be made again.
  void feed(std::string_view text, const RulesInForce& rules, BlockScanner& scanner, const Worker::LoadSpool& load_spool);
  void lose(std::string what, std::uint64_t count);
  // What came since the last news. must_last is set: it cannot be read again.
  SourceNews news(parsers::TimePoint now);
  // Lets the Intake go; call it when all news are stored.
  void rest();
  bool resting() const { return intake_ == nullptr; }
  const signatures::SourceInfo& info() const { return info_; }

 private:
  Intake& intake_of(const RulesInForce& rules, BlockScanner& scanner, const Worker::LoadSpool& load_spool);

  const signatures::SourceInfo info_;
  const std::string kind_;
  const int default_year_;
  std::unique_ptr<Intake> intake_;
  Spool spool_;
  std::uint64_t rules_ = 0;                     // version of the set that the Intake was made with
  std::uint64_t offset_ = 0, lines_ = 0, lost_ = 0;
  std::uint64_t telling_ = 0, telling_before_ = 0, telling_sent_ = 0;   // of Intakes that were let go; what the present one found again in its spool; told
  std::optional<std::int64_t> step_;
  std::vector<signatures::Lost> lost_lines_;
  bool stored_ = false;                         // an earlier Intake's spool is in the store
};

}  // namespace triage::daemon
