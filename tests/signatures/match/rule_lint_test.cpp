#include "signatures/match/rule_lint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_examples.hpp"
#include "signatures/match/rule_reader.hpp"

using namespace triage::signatures;

namespace {

// The shipped rules with one of a user over torch.cuda.oom; its lines differ in the pattern and in what stands between that and the fixes.
ReadRules with_mine(const std::string& pattern_and_captures, const std::string& summary) {
  const std::string mine = "\n- id: torch.cuda.oom\n  kind: gpu.oom\n  role: root\n" + pattern_and_captures + "  fixes: [recompute]\n  summary: '" + summary +
                           "'\n  sources: ['x']\n  examples: ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0']\n"
                           "  counter_examples: ['no such thing']\n";
  const RuleFile user{"mine.yaml", mine};
  ReadRules both = override_rules(read_rules(embedded_rule_files()).rules, std::span(&user, 1));
  REQUIRE(both.faults.empty());
  return both;
}

std::vector<triage::parsers::Error> lint_of(std::vector<Signature> rules) {
  std::vector<triage::parsers::Error> faults;
  const auto set = SignatureSet::compile_rest(std::move(rules), {}, faults);
  TrialBudget budget(*set);
  auto told = lint(*set, budget);
  CHECK_FALSE(budget.used_up());
  return told;
}

}  // namespace

TEST_CASE("a user's rule over a shipped one that lost its guards is blamed itself, at its own line") {
  const ReadRules both = with_mine("  match: 'CUDA out of memory\\. Tried to allocate'\n", "mine");
  const auto faults = lint_of(both.rules);
  REQUIRE_FALSE(faults.empty());
  for (const auto& fault : faults) {
    REQUIRE(fault.place());
    CHECK(fault.place()->file == "mine.yaml");
    CHECK(fault.place()->line == 2);
  }
}

TEST_CASE("a user's rule that fires on examples of many shipped rules is told so once") {
  const ReadRules both = with_mine("  match: 'CUDA'\n", "mine");
  const auto faults = lint_of(both.rules);
  const auto blames = std::count_if(faults.begin(), faults.end(), [](const auto& fault) { return fault.message().find("also fires on an example of the shipped rule") != std::string::npos; });
  CHECK(blames == 1);
  CHECK(std::any_of(faults.begin(), faults.end(), [](const auto& fault) { return fault.message().find(" and on some of ") != std::string::npos; }));
}

TEST_CASE("when trying the examples takes too long that is told, with the file, and nothing false of what was not tried") {
  std::vector<triage::parsers::Error> broken;
  ReadRules both = with_mine("  match: 'CUDA'\n", "mine");
  const auto set = SignatureSet::compile(std::move(both.rules), {}, broken);
  REQUIRE(set);
  TrialBudget none(*set, std::chrono::nanoseconds(0));
  CHECK(check_examples(*set, none).empty());
  CHECK(none.used_up());
  for (const auto& fault : lint(*set, none)) CHECK(fault.message().find("example") == std::string::npos);
  CHECK(none.fault().message().find("not all examples were tried") != std::string::npos);
  CHECK(none.fault().reason().find(" % of it") != std::string::npos);
}

TEST_CASE("the shipped rules have no fault of their own") { CHECK(lint_of(read_rules(embedded_rule_files()).rules).empty()); }

TEST_CASE("a user's rule whose capture has a type that its own example does not fit is told so, at the example") {
  ReadRules both = with_mine("  match: 'CUDA out of memory\\. Tried to allocate (?P<tried>[\\d.]+ [KMGT]iB)'\n  captures: {tried: integer}\n", "no room for {tried}");
  std::vector<triage::parsers::Error> broken;
  const auto set = SignatureSet::compile(std::move(both.rules), {}, broken);
  REQUIRE(set);
  std::vector<triage::parsers::Error> faults;
  TrialBudget budget(*set);
  for (auto& fault : check_examples(*set, budget))
    if (fault.message().find("reads nothing") != std::string::npos) faults.push_back(std::move(fault));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].message().find("the capture 'tried' reads nothing") != std::string::npos);
  REQUIRE(faults[0].place());
  CHECK(faults[0].place()->file == "mine.yaml");
  CHECK(faults[0].place()->line == 10);
}
