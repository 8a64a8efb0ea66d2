#include "signatures/match/literal_scanner.hpp"

#include <algorithm>
#include <iterator>

namespace triage::signatures {
namespace {

std::size_t pair_at(const char* p) {
  return (static_cast<unsigned char>(p[0]) | 0x20u) << 8 | static_cast<unsigned char>(p[1]) | 0x20u;
}

}  // namespace

LiteralScanner::LiteralScanner(std::vector<Literal> literals, bool allow_vectorscan) : literals_(std::move(literals)) {
  std::vector<Literal> many, few;
  std::vector<std::uint32_t> many_numbers;
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    const bool is_long = literals_[i].text.size() >= GramFilter::kLeast;
    (is_long ? many : few).push_back(literals_[i]);
    (is_long ? many_numbers : short_numbers_).push_back(i);
  }
  long_ = std::make_unique<const GramFilter>(std::move(many), std::move(many_numbers));
  if (allow_vectorscan) short_ = Vectorscan::compile(few, short_numbers_);
  if (few.empty()) return;
  pairs_.assign(65536, false);
  for (const Literal& literal : few) pairs_[pair_at(literal.text.data())] = true;
}

std::string_view LiteralScanner::engine() const {
  if (short_numbers_.empty()) return "grams";
  return short_ ? "grams+vectorscan" : "grams+pairs";
}

void LiteralScanner::scan_pairs(std::string_view block, std::vector<LiteralHit>& out) const {
  for (std::size_t at = 0; at + 1 < block.size(); ++at) {
    if (!pairs_[pair_at(block.data() + at)]) continue;
    for (const std::uint32_t number : short_numbers_)
      if (stands_at(literals_[number], block, at)) out.push_back({at, number});
  }
}

void LiteralScanner::scan(std::string_view block, Scratch& scratch, std::vector<LiteralHit>& out) const {
  out.clear();
  if (short_numbers_.empty()) return long_->scan(block, out);
  if (short_ && !scratch.prepared) {
    scratch.usable = short_->prepare(scratch.vectorscan);
    scratch.prepared = true;
  }
  scratch.from_long.clear();
  scratch.from_short.clear();
  long_->scan(block, scratch.from_long);
  if (!short_ || !scratch.usable || !short_->scan(block, scratch.vectorscan, scratch.from_short)) {
    scratch.from_short.clear();
    scan_pairs(block, scratch.from_short);
  }
  std::merge(scratch.from_long.begin(), scratch.from_long.end(), scratch.from_short.begin(), scratch.from_short.end(), std::back_inserter(out),
             [](const LiteralHit& a, const LiteralHit& b) { return a.at < b.at; });
}

}  // namespace triage::signatures
