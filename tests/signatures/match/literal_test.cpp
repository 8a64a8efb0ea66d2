#include "signatures/match/literal.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace triage::signatures;

namespace {

// "a|b*" for the set {a, b without regard to case}; "-" for none.
std::string best(const std::string& pattern, std::size_t least = 4) {
  const auto set = best_literals(pattern, least);
  if (!set) return "-";
  std::string out;
  for (const Literal& literal : *set) out += (out.empty() ? "" : "|") + literal.text + (literal.caseless ? "*" : "");
  return out;
}

}  // namespace

TEST_CASE("the best required literals of a pattern") {
  struct Row {
    const char* pattern;
    const char* want;
  };
  const Row rows[] = {
      {R"(CUDA out of memory\. Tried to allocate (?P<tried>[\d.]+ [KMGT]iB))", "CUDA out of memory. Tried to allocate "},
      {R"(^Killed\s+process (\d+))", "process "},
      {"abcd|efghi", "abcd|efghi"},
      {"(?:HIP|CUDA) out of memory", "HIP out of memory|CUDA out of memory"},
      {"(HIP|CUDA|) out of memory", " out of memory"},
      {"memory(?: error)? found", "memory found|memory error found"},
      {"memor(y|ies)+ found", "y found|ies found"},
      {"(?i)out of memory", "out of memory*"},
      {"(?i:Error): code", "error: code*"},
      {"x(?i)abc(?-i)Def", "xabcdef*"},
      {"(?:(?i)abc)Def", "abcdef*"},
      {"[Oo]ut of [Mm]emory", "out of memory*"},
      {"[OX]ut of memory", "Out of memory|Xut of memory"},
      {"a.b.c.defg", "defg"},
      {"a+bcde", "abcde"},
      {"ab?cdef", "acdef|abcdef"},
      {"(?P<n>x{3})abcd", "abcd"},
      {"ab{0,3}cdef", "cdef"},
      {"ab{1}cdef", "abcdef"},
      {"\\Qa.b[c]\\Ed", "a.b[c]d"},
      {"\\x41\\x{42}CD\\.\\-", "ABCD.-"},
      {"\\bword\\b", "word"},
      {"error\\nnext line", "next line"},
      {"say \"hello there\" now", "hello there"},
      {"[[:digit:]]+ bytes", " bytes"},
      {"[]a]bcde", "]bcde|abcde"},
      {"[^a]bcde", "bcde"},
      {"[a-c]bcde", "abcde|bbcde|cbcde"},
      {"[a\\-]bcde", "-bcde|abcde"},
      {"{abc}def", "{abc}def"},
      {"ab\\d+cd", "-"},
      {"abcd|\\d+", "-"},
      {"(abcd)?", "-"},
      {".*", "-"},
      {"", "-"},
      {"(?:abcd.*|efgh\\d+)ijklmnop", "ijklmnop"},
      {"(?:watchdog.*|efghtyuiop\\d+)ijkl", "watchdog|efghtyuiop"},
      {"iteration \\d+ diverges", " diverges"},
      {"out of memory|CUDA out of memory", "out of memory"},
      {"\\p{Greek}abcd", "abcd"},
  };
  for (const Row& row : rows) {
    SUBCASE(row.pattern) { CHECK(best(row.pattern) == row.want); }
  }
}

TEST_CASE("literals are cut at bytes of other encodings") { CHECK(best("(?i)\xC3\xA9t\xC3\xA9 abcd") == " abcd*"); }

TEST_CASE("shorter literals only where the rule says why") {
  CHECK(best("Xid \\d+", 5) == "-");
  Signature rule;
  rule.match = {"ab\\d+"};
  CHECK_FALSE(rule_literals(rule));
  rule.no_literal = "the text is that short";
  REQUIRE(rule_literals(rule));
  CHECK(rule_literals(rule)->front().text == "ab");
}

TEST_CASE("literals of a rule: one set a pattern, together; by hand they win") {
  Signature rule;
  rule.match = {"first thing", "second (?:thing|part)", "the first thing again"};
  const auto all = rule_literals(rule);
  REQUIRE(all);
  CHECK(all->size() == 3);
  rule.literals = {"thing"};
  CHECK(rule_literals(rule) == std::vector<Literal>{{"thing", false}});
  rule.literals.clear();
  rule.match.push_back("\\d+");
  CHECK_FALSE(rule_literals(rule));
}

TEST_CASE("any text is read without fault") {
  const std::string pattern = "(?i)a(?P<x>b[c-e\\]^]|\\x{41}|\\Qz\\E){2,3}?\\p{L}[[:alpha:]-]$";
  for (std::size_t n = 0; n <= pattern.size(); ++n) {
    (void)required_literals(pattern.substr(0, n));
    (void)required_literals(pattern.substr(n));
  }
  CHECK(required_literals(std::string(100'000, '(')).empty());
  CHECK(required_literals(std::string(100'000, ')')).empty());
  CHECK(required_literals(std::string(100'000, '[')).empty());
}
