#include "signatures/match/gram_filter.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include "parsers/base/text.hpp"
#include "signatures/match/background.hpp"

namespace triage::signatures {
namespace {

constexpr std::size_t kIndexed = 4;  // bytes that choose the word
constexpr std::size_t kGram = 6;     // bytes looked at
constexpr std::size_t kLongestStride = 13;
constexpr std::size_t kWindow = 8;   // bytes compared before the literal is
constexpr std::size_t kHead = 120;   // bytes of a literal that grams are taken of
constexpr std::size_t kLanes = 4;    // places of one turn of the pass
constexpr std::size_t kTurns = 512;  // turns before what passed is verified
constexpr int kFactors = 24;         // hashes that are tried

std::uint32_t four_at(const char* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
std::uint64_t eight_at(const char* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
constexpr std::uint64_t kFold = 0x2020202020202020u;   // letters of both cases fall together; so do some other pairs

// How often pieces of 3 to 6 bytes stand in healthy logs, without regard to case.
class PieceCounts {
 public:
  PieceCounts() {
    const std::string_view healthy = background();
    for (std::size_t size = kLeast; size <= kGram; ++size)
      for (std::size_t i = 0; i + size <= healthy.size(); ++i) ++counts_[key(healthy.substr(i, size))];
  }

  unsigned of(std::string_view piece) const {
    const auto found = counts_.find(key(piece));
    return found == counts_.end() ? 0 : found->second;
  }
  // Of all pieces of three bytes in the text.
  unsigned parts(std::string_view text) const {
    unsigned sum = 0;
    for (std::size_t i = 0; i + kLeast <= text.size(); ++i) sum += of(text.substr(i, kLeast));
    return sum;
  }

 private:
  static constexpr std::size_t kLeast = 3;
  static std::uint64_t key(std::string_view piece) {
    std::uint64_t v = 0;
    std::memcpy(&v, piece.data(), piece.size());
    return v | kFold | std::uint64_t{piece.size()} << 60;
  }

  std::unordered_map<std::uint64_t, unsigned> counts_;
};

// Of the places `residue`, `residue + stride`, ... in the text the one whose gram is rarest in healthy logs; the more bytes of it are known the
// better. -1: no gram stands at such a place.
int rarest_place(std::string_view text, std::size_t residue, std::size_t stride, const PieceCounts& counts) {
  int best = -1;
  std::tuple<unsigned, std::size_t, unsigned> least;
  for (std::size_t at = residue; at + kIndexed <= text.size(); at += stride) {
    const std::string_view gram = text.substr(at, kGram);
    const std::tuple<unsigned, std::size_t, unsigned> now(counts.of(gram), kGram - gram.size(), counts.parts(gram));
    if (best >= 0 && now >= least) continue;
    best = static_cast<int>(at);
    least = now;
  }
  return best;
}

// The four bytes from the place: letters in both cases if `caseless`, any byte outside the text.
std::vector<std::uint32_t> spellings(std::string_view text, int place, bool caseless) {
  std::vector<std::uint32_t> out{0};
  for (int byte = 0; byte < static_cast<int>(kIndexed); ++byte) {
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

// The bits of the fifth and sixth byte in their halves of the word; the five low bits of a byte are the same for both cases of a letter.
std::uint64_t bits_of(std::string_view text, int place) {
  std::uint64_t out = 0;
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t at = static_cast<std::size_t>(place + static_cast<int>(kIndexed + half));
    const std::uint64_t bits = at < text.size() ? std::uint64_t{1} << (static_cast<unsigned char>(text[at]) & 31) : 0xffffffffu;
    out |= bits << (32 * half);
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
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    shortest = std::min(shortest, literals_[i].text.size());
    if (literals_[i].text.front() == '\n') line_starts_.push_back(i);
  }
  stride_ = std::clamp(shortest, kWindow, kLongestStride + kIndexed - 1) - (kIndexed - 1);
  std::vector<Gram> all = grams();
  choose_table(all);
  std::stable_sort(all.begin(), all.end(), [this](const Gram& a, const Gram& b) { return word_of(a.bytes, factor_) < word_of(b.bytes, factor_); });
  first_.assign(table_.size() + 1, 0);
  entries_.reserve(all.size());
  for (const Gram& gram : all) {
    ++first_[word_of(gram.bytes, factor_) + 1];
    entries_.push_back(gram.entry);
  }
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
}

std::vector<GramFilter::Gram> GramFilter::grams() const {
  static const PieceCounts counts;
  std::vector<Gram> out;
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    const std::string_view head = std::string_view(literals_[i].text).substr(0, kHead);
    for (std::size_t residue = 0; residue < stride_; ++residue) {
      Gram gram;
      gram.entry.literal = i;
      const int place = rarest_place(head, residue, stride_, counts);
      gram.entry.place = static_cast<std::int16_t>(place);
      gram.entry.windowed = head.size() >= kWindow;
      if (gram.entry.windowed) {
        const int window = std::min(place, static_cast<int>(head.size() - kWindow));
        gram.entry.skip = static_cast<std::int8_t>(window - place);
        gram.entry.window = eight_at(head.data() + window) | kFold;
      }
      gram.bits = bits_of(head, place);
      for (const std::uint32_t bytes : spellings(head, place, literals_[i].caseless)) {
        gram.bytes = bytes;
        out.push_back(gram);
      }
    }
  }
  return out;
}

std::vector<std::uint64_t> GramFilter::table_of(const std::vector<Gram>& grams, std::uint32_t factor) {
  std::vector<std::uint64_t> out(std::size_t{1} << kWordBits, 0);
  for (const Gram& gram : grams) out[word_of(gram.bytes, factor)] |= gram.bits;
  return out;
}

void GramFilter::choose_table(const std::vector<Gram>& grams) {
  const std::string_view healthy = background();
  std::size_t least = 0;
  std::uint32_t factor = 0x9E3779B1u;   // 2^32 over the golden ratio
  for (int i = 0; i < kFactors; ++i, factor = factor * 0x915F77F5u + 0x6D2B79F4u) {
    std::vector<std::uint64_t> table = table_of(grams, factor);
    std::size_t passed = 0;
    for (std::size_t at = 0; at + 8 <= healthy.size(); ++at) passed += passes(table[word_of(four_at(healthy.data() + at), factor)], eight_at(healthy.data() + at));
    if (i > 0 && passed >= least) continue;
    least = passed;
    factor_ = factor;
    table_ = std::move(table);
  }
}

void GramFilter::verify(std::string_view block, std::size_t at, std::uint32_t word, std::vector<LiteralHit>& out) const {
  for (std::uint32_t i = first_[word]; i < first_[word + 1]; ++i) {
    const Entry& entry = entries_[i];
    if (static_cast<std::ptrdiff_t>(at) < entry.place) continue;
    const std::size_t window = at + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(entry.skip));
    if (entry.windowed && (window + kWindow > block.size() || (eight_at(block.data() + window) | kFold) != entry.window)) continue;
    const std::size_t start = at - static_cast<std::size_t>(static_cast<std::ptrdiff_t>(entry.place));
    const Literal& literal = literals_[entry.literal];
    if (stands_at(literal, block, start)) out.push_back({std::max(at, literal.text.front() == '\n' ? start + 1 : start), numbers_[entry.literal]});
  }
}

void GramFilter::scan(std::string_view block, std::vector<LiteralHit>& out) const {
  if (literals_.empty()) return;
  for (const std::uint32_t i : line_starts_)
    if (stands_at({literals_[i].text.substr(1), literals_[i].caseless}, block, 0)) out.push_back({0, numbers_[i]});
  const char* const data = block.data();
  const std::uint64_t* const table = table_.data();
  const std::size_t stride = stride_;
  const std::uint32_t factor = factor_;
  const auto look = [=](std::size_t at) {
    const std::uint64_t eight = eight_at(data + at);
    return passes(table[word_of(static_cast<std::uint32_t>(eight), factor)], eight);
  };
  const std::size_t turn = kLanes * stride;
  const std::size_t reach = (kLanes - 1) * stride + sizeof(std::uint64_t);   // bytes that a turn reads
  std::array<std::size_t, kTurns + 1> passed;
  std::array<std::size_t, kTurns * kLanes + 1> places;
  std::size_t at = 0;
  while (at + reach <= block.size()) {
    const std::size_t turns = std::min(kTurns, (block.size() - at - reach) / turn + 1);
    std::size_t found = 0;
    for (std::size_t i = 0; i < turns; ++i, at += turn) {
      passed[found] = at;
      found += look(at) | look(at + stride) | look(at + 2 * stride) | look(at + 3 * stride);
    }
    std::size_t count = 0;
    for (std::size_t i = 0; i < found; ++i)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        places[count] = passed[i] + lane * stride;
        count += look(places[count]);
      }
    for (std::size_t i = 0; i < count; ++i) verify(block, places[i], word_of(four_at(data + places[i]), factor), out);
  }
  for (; at + kIndexed <= block.size(); at += stride) {
    std::array<char, sizeof(std::uint64_t)> last{};
    std::memcpy(last.data(), data + at, std::min(last.size(), block.size() - at));
    const std::uint32_t word = word_of(four_at(last.data()), factor);
    if (passes(table[word], eight_at(last.data()))) verify(block, at, word, out);
  }
}

}  // namespace triage::signatures
