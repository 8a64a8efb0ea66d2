#include "signatures/match/gram_filter.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "parsers/base/text.hpp"
#include "signatures/match/background.hpp"

namespace triage::signatures {
namespace {

constexpr std::size_t kGram = 4;
constexpr std::size_t kLongestStride = 13;

// Letters of both cases fall together; so do some other pairs, which the comparison tells apart.
std::uint32_t gram_at(const char* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v | 0x20202020u;
}
std::uint64_t window_at(const char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v | 0x2020202020202020u;
}

// Start of the window of `size` bytes whose `stride` grams are rarest in healthy logs.
std::size_t rarest_window(const std::string& text, std::size_t size, std::size_t stride, const std::unordered_map<std::uint32_t, unsigned>& counts) {
  std::size_t best = 0;
  unsigned least = ~0u;
  for (std::size_t start = 0; start + size <= text.size(); ++start) {
    unsigned sum = 0;
    for (std::size_t k = 0; k < stride; ++k) {
      const auto at = counts.find(gram_at(text.data() + start + k));
      if (at != counts.end()) sum += at->second;
    }
    if (sum < least) {
      least = sum;
      best = start;
    }
  }
  return best;
}

}  // namespace

bool stands_at(const Literal& literal, std::string_view text, std::size_t at) {
  if (at > text.size() || text.size() - at < literal.text.size()) return false;
  if (!literal.caseless) return std::memcmp(text.data() + at, literal.text.data(), literal.text.size()) == 0;
  return parsers::equal_ignoring_case(text.substr(at, literal.text.size()), literal.text);
}

GramFilter::GramFilter(std::vector<Literal> literals, std::vector<std::uint32_t> numbers) : literals_(std::move(literals)), numbers_(std::move(numbers)) {
  if (literals_.empty()) return;
  std::size_t shortest = literals_.front().text.size();
  for (const Literal& literal : literals_) shortest = std::min(shortest, literal.text.size());
  stride_ = std::clamp(shortest - (kGram - 1), kLeast - (kGram - 1), kLongestStride);
  const std::size_t window = stride_ + kGram - 1;

  std::unordered_map<std::uint32_t, unsigned> counts;
  const std::string_view healthy = background();
  for (std::size_t i = 0; i + kGram <= healthy.size(); ++i) ++counts[gram_at(healthy.data() + i)];

  struct Row {
    std::uint32_t slot;
    Entry entry;
  };
  std::vector<Row> rows;
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    const std::string& text = literals_[i].text;
    const std::size_t skip = rarest_window(text.substr(0, 4096), window, stride_, counts);
    for (std::size_t k = 0; k < stride_; ++k)
      rows.push_back({slot(gram_at(text.data() + skip + k)), {window_at(text.data() + skip), i, static_cast<std::uint16_t>(k), static_cast<std::uint16_t>(skip)}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.slot < b.slot; });
  table_.assign((std::size_t{1} << kTableBits) / 32, 0);
  first_.assign(table_.size() + 1, 0);
  for (const Row& row : rows) {
    table_[row.slot / 32] |= 1u << (row.slot % 32);
    ++first_[row.slot / 32 + 1];
    entries_.push_back(row.entry);
  }
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

void GramFilter::check(std::string_view block, std::size_t at, std::uint32_t slot, std::vector<LiteralHit>& out) const {
  const std::size_t word = slot / 32;
  for (std::uint32_t i = first_[word]; i < first_[word + 1]; ++i) {
    const Entry& entry = entries_[i];
    if (at < std::size_t{entry.back} + entry.skip) continue;
    const std::size_t window = at - entry.back;
    if (window + kLeast > block.size() || window_at(block.data() + window) != entry.window) continue;
    if (stands_at(literals_[entry.literal], block, window - entry.skip)) out.push_back({at, numbers_[entry.literal]});
  }
}

void GramFilter::scan(std::string_view block, std::vector<LiteralHit>& out) const {
  if (literals_.empty()) return;
  const char* const data = block.data();
  const std::uint32_t* const table = table_.data();
  const std::size_t stride = stride_;
  const auto bit = [table](std::uint32_t s) { return table[s >> 5] >> (s & 31); };
  std::size_t at = 0;
  for (; at + 3 * stride + kGram <= block.size(); at += 4 * stride) {
    const std::uint32_t a = slot(gram_at(data + at));
    const std::uint32_t b = slot(gram_at(data + at + stride));
    const std::uint32_t c = slot(gram_at(data + at + 2 * stride));
    const std::uint32_t d = slot(gram_at(data + at + 3 * stride));
    if (((bit(a) | bit(b) | bit(c) | bit(d)) & 1) == 0) [[likely]]
      continue;
    if (bit(a) & 1) check(block, at, a, out);
    if (bit(b) & 1) check(block, at + stride, b, out);
    if (bit(c) & 1) check(block, at + 2 * stride, c, out);
    if (bit(d) & 1) check(block, at + 3 * stride, d, out);
  }
  for (; at + kGram <= block.size(); at += stride) {
    const std::uint32_t s = slot(gram_at(data + at));
    if (bit(s) & 1) check(block, at, s, out);
  }
}

}  // namespace triage::signatures
