// Finds all literals of a set in a block: GramFilter for those of 7 bytes and more, Vectorscan for shorter ones (no shipped rule that is
// looked for in every byte has one), or a table of byte pairs where Vectorscan is not there.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "signatures/match/gram_filter.hpp"
#include "signatures/match/literal.hpp"
#include "signatures/match/vectorscan.hpp"

namespace triage::signatures {

// Const after construction, shared by threads; each has its own Scratch.
class LiteralScanner {
 public:
  static constexpr std::size_t kLeast = 2;  // bytes of a literal; shorter ones are a mistake of the caller

  struct Scratch {
    Vectorscan::Scratch vectorscan;
    bool prepared = false, usable = false;
    std::vector<LiteralHit> from_long, from_short;
  };

  // Hits carry the literal's index. `allow_vectorscan` false: as where the library is missing (tests).
  explicit LiteralScanner(std::vector<Literal> literals, bool allow_vectorscan = true);

  const std::vector<Literal>& literals() const { return literals_; }
  // "grams+vectorscan", "grams+pairs" or "grams".
  std::string_view engine() const;
  // All hits of the block, in rising order of `at` (a byte inside the literal). One literal may be hit more than once.
  void scan(std::string_view block, Scratch& scratch, std::vector<LiteralHit>& out) const;

 private:
  void scan_pairs(std::string_view block, std::vector<LiteralHit>& out) const;

  std::vector<Literal> literals_;
  std::unique_ptr<const GramFilter> long_;
  std::unique_ptr<const Vectorscan> short_;
  std::vector<std::uint32_t> short_numbers_;
  std::vector<bool> pairs_;   // [65536] the first two bytes of a short literal, bit 0x20 set
};

}  // namespace triage::signatures
