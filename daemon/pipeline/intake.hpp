// Intake: blocks of one source in, its findings out. The agent half of the pipeline; the same object serves scan, run and the service.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/pipeline/block_scanner.hpp"
#include "daemon/pipeline/knowledge.hpp"
#include "daemon/pipeline/progress_memory.hpp"
#include "daemon/pipeline/spool.hpp"
#include "parsers/config/config_reader.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/records/prefix.hpp"
#include "parsers/records/traceback.hpp"
#include "signatures/match/match.hpp"
#include "signatures/match/matcher.hpp"

namespace triage::daemon {

// One source, one thread at a time. Memory is bounded by parsers/base/limits.hpp whatever the source holds.
class Intake {
 public:
  // default_year: for clocks that print none. spool: gets the lines that matter (null: they are not kept); outlives this object.
  Intake(std::shared_ptr<const Knowledge> knowledge, signatures::SourceInfo source, int default_year, Spool* spool = nullptr);

  // The next block of the source, in its order. matcher: of the calling thread, of the same knowledge.
  void take(const ScannedBlock& scanned, signatures::Matcher& matcher);
  // What comes next stands behind a gap that needs no reading: `lines` line ends stand before it.
  void skip_to(std::uint64_t lines) { newlines_ = lines; }
  // Something of the source could not be read.
  void lose(std::string what, std::uint64_t bytes);
  // Findings that can be or tell of a failure (neither facts, progress nor advice) so far, repeats included.
  std::uint64_t telling() const { return telling_; }
  // The last step that was finished, if one was seen; and its line's clock.
  std::optional<parsers::Progress> last_progress() const { return progress_.last(); }
  // The last lines: what a judgement needs beside the spool, as long as nothing follows them.
  std::vector<SpoolLine> tail() const;
  // End of the source: closes what is open. Call once.
  signatures::SourceFindings finish();

 private:
  struct Woken;
  bool walking() const { return open_ > 0; }
  std::size_t walk(const ScannedBlock& scanned, std::size_t from, std::size_t to);
  void line(std::string_view text, std::uint64_t offset, std::uint64_t number, const signatures::Candidate* candidate);
  void spool_head(std::string_view text, std::uint64_t offset);
  void keep_tail(const ScannedBlock& scanned);
  void piece(const parsers::Line& line, const signatures::Candidate* candidate);
  void offer_to_readers(const parsers::Record& record, const Woken& woken, bool& inside);
  void close_event(std::size_t index);
  void take_tracebacks(std::vector<parsers::Traceback> tracebacks);
  void note_process(const parsers::Record& record);
  void note_exception(const parsers::Record& record);
  void keep(signatures::Finding finding);
  void note_bad_loss();
  void remember_tail(const ScannedBlock& scanned);
  void remember_last_exception(const ScannedBlock& scanned);
  void count_open();

  std::shared_ptr<const Knowledge> knowledge_;
  Spool* const spool_;
  signatures::Matcher* matcher_ = nullptr;   // of the take() that runs
  parsers::Peeler peeler_;
  parsers::TracebackAssembler tracebacks_;
  std::vector<std::unique_ptr<parsers::EventReader>> event_readers_;
  std::vector<signatures::Finding> openers_;   // the line that each of them opened at
  std::vector<std::unique_ptr<parsers::ConfigReader>> config_readers_;
  ProgressMemory progress_;
  signatures::SourceFindings out_;
  std::uint64_t newlines_ = 0;               // before the block being taken
  std::uint64_t line_at_ = 0;                // offset of the line being taken
  std::size_t open_ = 0;                     // readers that wait for more lines
  std::uint64_t telling_ = 0;
  bool worth_ = false;                       // the line being taken told something
  std::deque<SpoolLine> tail_;               // with a spool: the last lines,
  SpoolLine clock_line_;                     // and the last one with a clock
  std::vector<signatures::Finding> matched_; // scratch
  std::map<std::uint64_t, signatures::Finding> exceptions_;   // by line: exception lines whose traceback is not finished
  struct EventBlock {
    std::string reader;
    parsers::EventReader::Block block;
    signatures::Finding opener;   // the line it began at, where that is known
  };
  std::vector<EventBlock> blocks_;
  std::set<int> processes_;
  std::set<std::string> nodes_;
  std::optional<signatures::Finding> last_exception_;         // in the last lines of what was taken
  struct Folded {
    std::uint64_t count = 0;
    std::size_t index = 0;                   // of the last one in out_.findings
  };
  std::map<std::tuple<std::string, std::string, int>, Folded> folded_;   // rule, kind, rank
};

}  // namespace triage::daemon
