#include "signatures/match/rule_lint.hpp"

#include <doctest/doctest.h>

#include "signatures/match/rule_reader.hpp"

using namespace triage::signatures;

TEST_CASE("a user's rule over a shipped one that lost its guards is blamed itself, at its own line") {
  constexpr std::string_view kMine = R"(
- id: torch.cuda.oom
  kind: gpu.oom
  role: root
  match: 'CUDA out of memory\. Tried to allocate'
  fixes: [recompute]
  summary: 'mine'
  sources: ['x']
  examples: ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0']
  counter_examples: ['no such thing']
)";
  const RuleFile user{"mine.yaml", kMine};
  const ReadRules both = override_rules(read_rules(embedded_rule_files()).rules, std::span(&user, 1));
  REQUIRE(both.faults.empty());
  const auto faults = lint(both.rules);
  REQUIRE_FALSE(faults.empty());
  for (const auto& fault : faults) {
    REQUIRE(fault.place());
    CHECK(fault.place()->file == "mine.yaml");
    CHECK(fault.place()->line == 2);
  }
}

TEST_CASE("the shipped rules have no fault of their own") { CHECK(lint(read_rules(embedded_rule_files()).rules).empty()); }
