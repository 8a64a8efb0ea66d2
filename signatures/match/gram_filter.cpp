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
constexpr std::size_t kHead = 4096;  // bytes of a literal that grams are taken of

std::uint32_t gram_at(const char* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
// Letters of both cases fall together; so do some other pairs, which the comparison tells apart.
std::uint32_t folded(std::uint32_t gram) { return gram | 0x20202020u; }
std::uint64_t window_at(const char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v | 0x2020202020202020u;
}

// Of the places `residue`, `residue + stride`, ... in the text the one whose gram is rarest in healthy logs.
std::size_t rarest_gram(std::string_view text, std::size_t residue, std::size_t stride, const std::unordered_map<std::uint32_t, unsigned>& counts) {
  std::size_t best = residue;
  unsigned least = ~0u;
  for (std::size_t at = residue; at + kGram <= text.size(); at += stride) {
    const auto found = counts.find(folded(gram_at(text.data() + at)));
    const unsigned count = found == counts.end() ? 0 : found->second;
    if (count < least) {
      least = count;
      best = at;
    }
  }
  return best;
}

// The gram, or with letters of either case all 16 at most.
std::vector<std::uint32_t> spellings(std::uint32_t gram, bool caseless) {
  std::vector<std::uint32_t> out{gram};
  for (int byte = 0; caseless && byte < 4; ++byte) {
    const auto c = static_cast<char>(gram >> (8 * byte) & 0xFF);
    if (!parsers::is_alpha(c)) continue;
    const std::size_t count = out.size();
    for (std::size_t i = 0; i < count; ++i) out.push_back(out[i] ^ (0x20u << (8 * byte)));
  }
  return out;
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

  std::unordered_map<std::uint32_t, unsigned> counts;
  const std::string_view healthy = background();
  for (std::size_t i = 0; i + kGram <= healthy.size(); ++i) ++counts[folded(gram_at(healthy.data() + i))];

  struct Row {
    std::uint32_t slot;
    Entry entry;
  };
  std::vector<Row> rows;
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    const std::string& text = literals_[i].text;
    const std::string_view head = std::string_view(text).substr(0, kHead);
    for (std::size_t k = 0; k < stride_; ++k) {
      const std::size_t place = rarest_gram(head, k, stride_, counts);
      const std::size_t skip = std::min(place, head.size() - kLeast);
      const Entry entry{window_at(text.data() + skip), i, static_cast<std::uint16_t>(place - skip), static_cast<std::uint16_t>(skip)};
      for (const std::uint32_t gram : spellings(gram_at(text.data() + place), literals_[i].caseless)) rows.push_back({slot(gram), entry});
    }
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
