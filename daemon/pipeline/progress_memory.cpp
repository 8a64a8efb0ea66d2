#include "daemon/pipeline/progress_memory.hpp"

#include <algorithm>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/events/event_reader.hpp"

namespace triage::daemon {

void ProgressMemory::see(std::string_view text, std::uint64_t offset, std::uint64_t number) {
  const Seen seen{text, offset, number};
  if (wanted_ > 0) {
    keep(seen);
    return;
  }
  if (seen_.size() == kBefore) seen_.pop_front();
  seen_.push_back(seen);
}

// A progress bar's '\r' pieces are one line: the last piece that is a step counts.
void ProgressMemory::keep(const Seen& seen) {
  std::string_view rest = seen.text;
  while (!rest.empty()) {
    const std::size_t at = rest.rfind('\r');
    const std::string_view piece = at == std::string_view::npos ? rest : rest.substr(at + 1);
    parsers::Line line;
    line.text = piece.substr(0, parsers::limits::kLineBytes);
    line.offset = seen.offset + static_cast<std::uint64_t>(piece.data() - seen.text.data());
    line.number = seen.number;
    const parsers::Record record = peeler_.peel(line);
    if (auto progress = parsers::read_progress(record)) {
      progress->line = seen.number;
      if (!progress->rank) progress->rank = record.rank ? record.rank : record.local_rank ? record.local_rank : record.task;
      if (wanted_ > 0) --wanted_;
      if (kept_.size() == kKept) kept_.erase(kept_.begin() + kFirst, kept_.begin() + kKept / 2);
      kept_.push_back(std::move(*progress));
      return;
    }
    if (at == std::string_view::npos) return;
    rest = rest.substr(0, at);
  }
}

void ProgressMemory::settle() {
  for (parsers::Progress& progress : pending_) kept_.push_back(std::move(progress));
  pending_.clear();
  for (const Seen& seen : std::exchange(seen_, {})) keep(seen);
  wanted_ = kAfter;
}

void ProgressMemory::end_of_block() {
  if (seen_.empty()) return;
  std::vector<parsers::Progress> kept = std::exchange(kept_, {});
  for (const Seen& seen : std::exchange(seen_, {})) keep(seen);
  for (parsers::Progress& progress : kept_) pending_.push_back(std::move(progress));
  kept_ = std::move(kept);
  if (pending_.size() > kBefore) pending_.erase(pending_.begin(), pending_.end() - kBefore);
}

std::vector<parsers::Progress> ProgressMemory::finish() {
  end_of_block();
  for (parsers::Progress& progress : pending_) kept_.push_back(std::move(progress));
  pending_.clear();
  return std::exchange(kept_, {});
}

}  // namespace triage::daemon
