// One pass over bytes for many literals of at least 7 bytes, without looking at every byte.
//
// Six bytes are looked up at every stride-th place only. Wherever a literal stands, the places looked at have one residue modulo the
// stride inside it; so it gives one gram for each residue, the one that is rarest in healthy logs. The shortest literal bounds the
// stride: length - 3, at least 5. The first four bytes of a gram choose a word of the table, the next two a bit in each half of it; what
// a short literal does not know of those two sets the whole half. Of seven bytes one residue has no gram: there it is the one that
// begins a byte before the literal, with any byte.
// The pass itself has no branch that depends on the text: a healthy line that passes the table costs its comparison, not a wrong guess of
// the processor. The table (128 KiB, second-level cache) is hashed so that the fewest places of healthy logs pass it.
// Measured (matcher_bench): 4.0 to 4.2 GB/s on one core with 1,300 literals, 4.8 GB/s with 400; a byte-wise automaton gives 0.6 to 1.2 GB/s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "signatures/match/literal.hpp"

namespace triage::signatures {

// A literal stands there: `at` is a byte inside it (and of its line), in rising order.
struct LiteralHit {
  std::size_t at = 0;
  std::uint32_t literal = 0;
};

// Does the literal stand at `text[at...]`?
bool stands_at(const Literal& literal, std::string_view text, std::size_t at);

class GramFilter {
 public:
  static constexpr std::size_t kLeast = 7;  // bytes of a literal

  // `numbers[i]` is what hits of literals[i] carry. Literals shorter than kLeast are a mistake of the caller.
  GramFilter(std::vector<Literal> literals, std::vector<std::uint32_t> numbers);

  bool empty() const { return literals_.empty(); }
  // Appends all hits in the block, which starts at the start of a line. Thread-safe.
  void scan(std::string_view block, std::vector<LiteralHit>& out) const;

 private:
  static constexpr int kWordBits = 14;

  struct Entry {
    std::uint64_t window = 0;   // eight bytes of the literal, bit 0x20 of each set
    std::uint32_t literal = 0;
    std::int16_t place = 0;     // of the gram in the literal; -1: one byte before it
    std::int8_t skip = 0;       // from the gram to the window
    bool windowed = false;      // a literal of 7 bytes has no window
  };
  // One spelling of a gram: its four bytes and the bits that it sets in their word.
  struct Gram {
    std::uint32_t bytes = 0;
    std::uint64_t bits = 0;
    Entry entry;
  };

  static std::uint32_t word_of(std::uint32_t bytes, std::uint32_t factor) { return (bytes * factor) >> (32 - kWordBits); }
  // `eight`: the bytes at the place looked at, the first one lowest. 1 or 0.
  static std::uint32_t passes(std::uint64_t word, std::uint64_t eight) {
    return (static_cast<std::uint32_t>(word) >> (eight >> 32 & 31)) & (static_cast<std::uint32_t>(word >> 32) >> (eight >> 40 & 31)) & 1u;
  }
  static std::vector<std::uint64_t> table_of(const std::vector<Gram>& grams, std::uint32_t factor);

  std::vector<Gram> grams() const;
  void choose_table(const std::vector<Gram>& grams);
  void verify(std::string_view block, std::size_t at, std::uint32_t word, std::vector<LiteralHit>& out) const;

  std::vector<Literal> literals_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint32_t> line_starts_;  // literals that begin with '\n': the start of a line
  std::size_t stride_ = kLeast - 2;
  std::uint32_t factor_ = 0;                // of the hash
  std::vector<std::uint64_t> table_;
  std::vector<std::uint32_t> first_;        // [words + 1] -> entries_: those of a word stand together
  std::vector<Entry> entries_;
};

}  // namespace triage::signatures
