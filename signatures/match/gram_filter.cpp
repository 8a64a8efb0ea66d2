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
constexpr std::size_t kWindow = 8;   // bytes compared before the literal is
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

// Of the places `residue`, `residue + stride`, ... in the text the one whose gram is rarest in healthy logs. Of a short text, in which no
// gram stands at such a place, the one with three bytes of it: one before its first, or three before its end.
int rarest_gram(std::string_view text, std::size_t residue, std::size_t stride, const std::unordered_map<std::uint32_t, unsigned>& counts) {
  if (residue + kGram > text.size()) return residue + kGram - 1 == text.size() ? static_cast<int>(residue) : -1;
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
  return static_cast<int>(best);
}

// All grams that can stand at the place: letters in both cases if `caseless`, any byte outside the text.
std::vector<std::uint32_t> spellings(std::string_view text, int place, bool caseless) {
  std::vector<std::uint32_t> out{0};
  for (int byte = 0; byte < static_cast<int>(kGram); ++byte) {
    std::vector<std::uint32_t> choices;
    const int at = place + byte;
    if (at < 0 || at >= static_cast<int>(text.size())) {
      for (std::uint32_t any = 0; any < 256; ++any) choices.push_back(any);
    } else {
      const char c = text[static_cast<std::size_t>(at)];
      choices.push_back(static_cast<unsigned char>(c));
      if (caseless && parsers::is_alpha(c)) choices.push_back(static_cast<unsigned char>(c) ^ 0x20u);
    }
    std::vector<std::uint32_t> longer;
    for (const std::uint32_t gram : out)
      for (const std::uint32_t choice : choices) longer.push_back(gram | choice << (8 * byte));
    out = std::move(longer);
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
  stride_ = std::clamp(shortest, kWindow, kLongestStride + kGram - 1) - (kGram - 1);

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
      Entry entry;
      entry.literal = i;
      entry.place = rarest_gram(head, k, stride_, counts);
      entry.windowed = head.size() >= kWindow;
      if (entry.windowed) {
        entry.skip = static_cast<std::uint32_t>(std::min(static_cast<std::size_t>(entry.place), head.size() - kWindow));
        entry.window = window_at(text.data() + entry.skip);
      }
      for (const std::uint32_t gram : spellings(head, entry.place, literals_[i].caseless)) rows.push_back({slot(gram), entry});
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
    if (entry.place > 0 && at < static_cast<std::size_t>(entry.place)) continue;
    const std::size_t start = entry.place < 0 ? at + 1 : at - static_cast<std::size_t>(entry.place);
    if (entry.windowed) {
      const std::size_t window = start + entry.skip;
      if (window + kWindow > block.size() || window_at(block.data() + window) != entry.window) continue;
    }
    if (stands_at(literals_[entry.literal], block, start)) out.push_back({std::max(at, start), numbers_[entry.literal]});
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
  // The last three bytes can be those of a short literal.
  if (at + kGram - 1 == block.size()) {
    std::uint32_t gram = 0;
    std::memcpy(&gram, data + at, kGram - 1);
    check(block, at, slot(gram), out);
  }
}

}  // namespace triage::signatures
