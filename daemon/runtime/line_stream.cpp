#include "daemon/runtime/line_stream.hpp"

#include <algorithm>

#include "daemon/pipeline/block_cutter.hpp"

namespace triage::daemon {

void LineStream::restore(const db::WatchedRow& row) {
  offset_ = row.offset;
  lines_ = row.lines;
  lost_ = row.lost_bytes;
  stored_ = row.offset > 0;
}

Intake& LineStream::intake_of(const RulesInForce& rules, BlockScanner& scanner, const Worker::LoadSpool& load_spool) {
  if (intake_ && rules_ == rules.version) return *intake_;
  rest();
  intake_ = std::make_unique<Intake>(rules.knowledge, info_, default_year_, &spool_);
  rules_ = rules.version;
  if (stored_) {
    std::vector<SpoolLine> unstored = spool_.take();
    std::vector<SpoolLine> all = load_spool(info_.name, 0);
    all.insert(all.end(), unstored.begin(), unstored.end());
    replay(in_order(std::move(all)), scanner, *intake_);
    (void)spool_.take();                        // they are stored already, or stand in `unstored`
    for (const SpoolLine& line : unstored) spool_.add(line.offset, line.number, line.text);
  }
  telling_before_ = intake_->telling();
  return *intake_;
}

void LineStream::feed(std::string_view text, const RulesInForce& rules, BlockScanner& scanner, const Worker::LoadSpool& load_spool) {
  if (text.empty()) return;
  Intake& intake = intake_of(rules, scanner, load_spool);
  ScannedBlock scanned;
  while (!text.empty()) {
    std::size_t size = std::min<std::size_t>(text.size(), BlockCutter::kBlockBytes);
    if (size < text.size()) {
      const std::size_t end = text.rfind('\n', size - 1);
      if (end != std::string_view::npos) size = end + 1;
    }
    scanned.block.bytes.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
    scanned.block.size = size;
    scanned.block.offset = offset_;
    scanner.scan(scanned);
    intake.skip_to(lines_);
    intake.take(scanned, scanner.matcher());
    offset_ += size;
    lines_ += scanned.newlines;
    text.remove_prefix(size);
  }
  stored_ = true;
}

void LineStream::lose(std::string what, std::uint64_t count) {
  lost_ += count;
  lost_lines_.push_back({info_.name, std::move(what), lines_ + 1, offset_, 0, count});
}

void LineStream::rest() {
  if (intake_) telling_ += intake_->telling() - telling_before_;
  intake_.reset();
}

SourceNews LineStream::news(parsers::TimePoint now) {
  SourceNews news;
  news.row.name = info_.name;
  news.row.kind = kind_;
  news.row.offset = news.row.size = offset_;
  news.row.lines = lines_;
  news.row.lost_bytes = lost_;
  news.row.seen_at = now;
  news.info = info_;
  news.spool = spool_.take();
  news.lost = std::exchange(lost_lines_, {});
  if (intake_) {
    news.tail = intake_->tail();
    if (const auto progress = intake_->last_progress(); progress && progress->iteration != step_) {
      news.step = progress->iteration;
      step_ = progress->iteration;
    }
  }
  const std::uint64_t telling = telling_ + (intake_ ? intake_->telling() - telling_before_ : 0);
  news.telling = telling - std::exchange(telling_sent_, telling);
  news.must_last = true;
  return news;
}

}  // namespace triage::daemon
