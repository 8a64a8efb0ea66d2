#include "daemon/pipeline/progress_memory.hpp"

#include <algorithm>
#include <utility>

#include "daemon/pipeline/newlines.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/events/event_reader.hpp"

namespace triage::daemon {

void ProgressMemory::begin_block(std::string_view text, std::uint64_t offset, std::uint64_t first_number) {
  text_ = text;
  offset_ = offset;
  scanned_ = counted_ = 0;
  number_ = first_number;
}

// Looks through text_[scanned_, end); both are beginnings of lines, or the end.
void ProgressMemory::scan_to(std::size_t end) {
  if (end <= scanned_) return;
  hits_.clear();
  const std::size_t begin = std::exchange(scanned_, end);
  scanner_->scan(text_.substr(begin, end - begin), scratch_, hits_);
  std::size_t line_end = begin;  // of the line taken last
  for (const signatures::LiteralHit& hit : hits_) {
    const std::size_t at = begin + hit.at;
    if (at < line_end) continue;
    const std::size_t before = text_.substr(0, at).rfind('\n');
    const std::size_t line = before == std::string_view::npos ? 0 : before + 1;
    line_end = std::min(text_.find('\n', at), text_.size());
    number_ += count_newlines(text_.substr(counted_, line - counted_));
    counted_ = line;
    const Seen seen{text_.substr(line, line_end - line), offset_ + line, number_};
    if (wanted_ > 0 && seen.offset < wanted_until_) {
      if (keep(seen)) --wanted_;
    } else {
      if (seen_.size() == kBefore) seen_.pop_front();
      seen_.push_back(seen);
    }
  }
}

// A progress bar's '\r' pieces are one line: the last piece that is a step counts.
std::optional<parsers::Progress> ProgressMemory::read(const Seen& seen) {
  std::string_view rest = seen.text;
  for (;;) {
    const std::size_t at = rest.rfind('\r');
    const std::string_view piece = at == std::string_view::npos ? rest : rest.substr(at + 1);
    parsers::Line line;
    line.text = piece.substr(0, parsers::limits::kLineBytes);
    line.offset = seen.offset + static_cast<std::uint64_t>(piece.data() - seen.text.data());
    line.number = seen.number;
    const parsers::Record record = peeler_.peel(line);
    if (auto progress = parsers::read_progress(record)) {
      progress->line = seen.number;
      if (progress->bad_number) {
        if (bad_.size() == kKept) bad_.pop_front();
        bad_.push_back({seen.number, line.offset, parsers::repair_utf8(parsers::trim(piece.substr(0, kTextBytes)))});
      }
      if (!progress->rank) progress->rank = record.rank ? record.rank : record.local_rank ? record.local_rank : record.task;
      return progress;
    }
    if (at == std::string_view::npos) return std::nullopt;
    rest = rest.substr(0, at);
  }
}

bool ProgressMemory::keep(const Seen& seen) {
  auto progress = read(seen);
  if (!progress) return false;
  kept_.push_back(std::move(*progress));
  if (spool_) spool_->add(seen.offset, seen.number, seen.text);
  return true;
}

void ProgressMemory::settle(std::uint64_t offset) {
  if (offset >= offset_) scan_to(std::min<std::size_t>(offset - offset_, text_.size()));
  for (Pending& pending : pending_) {
    kept_.push_back(std::move(pending.progress));
    if (spool_) spool_->add(pending.line.offset, pending.line.number, pending.line.text);
  }
  pending_.clear();
  for (const Seen& seen : std::exchange(seen_, {})) (void)keep(seen);
  if (kept_.size() > kKept) kept_.erase(kept_.begin() + kFirst, kept_.begin() + kKept / 2);
  wanted_ = kAfter;
  wanted_until_ = std::max(offset, offset_) + kReach;
}

void ProgressMemory::end_of_block() {
  const auto line_at = [&](std::size_t at) {  // the first line that begins at or after it
    if (at == 0 || at >= text_.size()) return std::min(at, text_.size());
    const std::size_t newline = text_.find('\n', at - 1);
    return newline == std::string_view::npos ? text_.size() : newline + 1;
  };
  while (wanted_ > 0 && scanned_ < text_.size() && offset_ + scanned_ < wanted_until_) scan_to(line_at(scanned_ + 2 * kTail));
  if (text_.size() > kTail) scanned_ = std::max(scanned_, line_at(text_.size() - kTail));
  scan_to(text_.size());
  for (const Seen& seen : std::exchange(seen_, {})) {
    auto progress = read(seen);
    if (!progress) continue;
    pending_.push_back({std::move(*progress), {}});
    if (spool_) pending_.back().line = {seen.offset, seen.number, std::string(seen.text.substr(0, parsers::limits::kLineBytes))};
  }
  if (pending_.size() > kBefore) pending_.erase(pending_.begin(), pending_.end() - kBefore);
  text_ = {};
}

const ProgressMemory::BadLine* ProgressMemory::bad_line(std::uint64_t number) const {
  const auto at = std::find_if(bad_.begin(), bad_.end(), [&](const BadLine& bad) { return bad.number == number; });
  return at == bad_.end() ? nullptr : &*at;
}

std::optional<parsers::Progress> ProgressMemory::last() const {
  if (!pending_.empty()) return pending_.back().progress;
  return kept_.empty() ? std::nullopt : std::optional(kept_.back());
}

std::vector<SpoolLine> ProgressMemory::pending_lines() const {
  std::vector<SpoolLine> out;
  for (const Pending& pending : pending_) out.push_back(pending.line);
  return out;
}

std::vector<parsers::Progress> ProgressMemory::finish() {
  for (Pending& pending : pending_) kept_.push_back(std::move(pending.progress));
  pending_.clear();
  return std::exchange(kept_, {});
}

}  // namespace triage::daemon
