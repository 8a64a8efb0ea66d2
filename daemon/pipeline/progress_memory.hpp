// ProgressMemory: which of the millions of progress lines of a healthy log are worth keeping: the first ones, the last ones before and
// the first ones after each finding, and the last one. A line is parsed only when it turns out to be one of these.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "parsers/events/event.hpp"
#include "parsers/records/prefix.hpp"

namespace triage::daemon {

class ProgressMemory {
 public:
  explicit ProgressMemory(int default_year) : peeler_(default_year) {}

  // A line that holds a progress literal. The view must live until settle() or end_of_block().
  void see(std::string_view text, std::uint64_t offset, std::uint64_t number);
  // A finding stands next: keep what was seen last, and what comes.
  void settle();
  // Views of this block end; remembers its last lines by value.
  void end_of_block();
  std::vector<parsers::Progress> finish();

 private:
  struct Seen {
    std::string_view text;
    std::uint64_t offset, number;
  };
  void keep(const Seen& seen);

  static constexpr std::size_t kFirst = 8, kBefore = 8, kAfter = 16, kKept = 4096;
  parsers::Peeler peeler_;
  std::vector<parsers::Progress> kept_;
  std::deque<Seen> seen_;                   // the last kBefore of this block
  std::vector<parsers::Progress> pending_;  // last ones of earlier blocks, not kept yet
  std::size_t wanted_ = kFirst;             // lines to parse as they come
};

}  // namespace triage::daemon
