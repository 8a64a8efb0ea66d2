#include "signatures/match/rule_lint.hpp"

#include <doctest/doctest.h>

#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_examples.hpp"
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

TEST_CASE("a user's rule whose capture has a type that its own example does not fit is told so, at the example") {
  constexpr std::string_view kMine = R"(
- id: torch.cuda.oom
  kind: gpu.oom
  role: root
  match: 'CUDA out of memory\. Tried to allocate (?P<tried>[\d.]+ [KMGT]iB)'
  captures: {tried: integer}
  fixes: [recompute]
  summary: 'no room for {tried}'
  sources: ['x']
  examples: ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0']
  counter_examples: ['no such thing']
)";
  const RuleFile user{"mine.yaml", kMine};
  ReadRules both = override_rules(read_rules(embedded_rule_files()).rules, std::span(&user, 1));
  REQUIRE(both.faults.empty());
  std::vector<triage::parsers::Error> broken;
  const auto set = SignatureSet::compile(std::move(both.rules), {}, broken);
  REQUIRE(set);
  std::vector<triage::parsers::Error> faults;
  for (auto& fault : check_examples(*set))
    if (fault.message().find("reads nothing") != std::string::npos) faults.push_back(std::move(fault));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].message().find("the capture 'tried' reads nothing") != std::string::npos);
  REQUIRE(faults[0].place());
  CHECK(faults[0].place()->file == "mine.yaml");
  CHECK(faults[0].place()->line == 10);
}
