#include "signatures/match/literal_scanner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

using namespace triage::signatures;

namespace {

using Found = std::set<std::pair<std::size_t, std::uint32_t>>;  // line, literal

std::size_t line_of(std::string_view text, std::size_t at) { return static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')); }

Found slow(const std::vector<Literal>& literals, const std::string& text) {
  Found out;
  for (std::uint32_t i = 0; i < literals.size(); ++i)
    for (std::size_t at = 0; at < text.size(); ++at)
      if (stands_at(literals[i], text, at)) out.emplace(line_of(text, at), i);
  return out;
}

Found fast(const LiteralScanner& scanner, const std::string& text) {
  LiteralScanner::Scratch scratch;
  std::vector<LiteralHit> hits;
  scanner.scan(text, scratch, hits);
  Found out;
  std::size_t before = 0;
  for (const LiteralHit& hit : hits) {
    CHECK(hit.at >= before);
    REQUIRE(hit.at < text.size());
    before = hit.at;
    out.emplace(line_of(text, hit.at), hit.literal);
  }
  return out;
}

}  // namespace

TEST_CASE("every literal is found at every place, with each engine") {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    const unsigned shortest = round % 3 == 0 ? 2 : round % 3 == 1 ? 8 : 14;
    const unsigned letters = 2 + below(4);
    const auto word = [&](unsigned size) {
      std::string out;
      for (unsigned i = 0; i < size; ++i) out += static_cast<char>((below(4) == 0 ? 'A' : 'a') + static_cast<char>(below(letters)));
      return out;
    };
    std::vector<Literal> literals;
    for (unsigned i = 0; i < 1 + below(12); ++i) literals.push_back({word(shortest + below(12)), below(3) == 0});
    std::string text;
    for (unsigned i = 0; i < below(40); ++i) {
      if (below(3) == 0) text += literals[below(static_cast<unsigned>(literals.size()))].text;
      text += word(below(9));
      if (below(4) == 0) text += '\n';
    }
    const Found want = slow(literals, text);
    CAPTURE(round);
    CHECK(fast(LiteralScanner(literals), text) == want);
    CHECK(fast(LiteralScanner(literals, false), text) == want);
  }
}

TEST_CASE("the engine is named") {
  CHECK(LiteralScanner({{"long enough", false}}).engine() == "grams");
  CHECK(LiteralScanner({{"long enough", false}, {"Xid", false}}, false).engine() == "grams+pairs");
}

TEST_CASE("a literal fills the whole block, stands at its start and at its end") {
  const LiteralScanner scanner({{"CUDA out of memory", false}, {"oom-kill", true}});
  CHECK(fast(scanner, "CUDA out of memory").size() == 1);
  CHECK(fast(scanner, "OOM-Kill").size() == 1);
  CHECK(fast(scanner, "x oom-kill").size() == 1);
  CHECK(fast(scanner, "CUDA out of memor").empty());
  CHECK(fast(scanner, "cuda out of memory").empty());
  CHECK(fast(scanner, "").empty());
}
