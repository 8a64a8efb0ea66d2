// The rules that are compiled into the program: readable, examples hold, lint clean, fast enough to start with.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "parsers/base/error_text.hpp"
#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_examples.hpp"
#include "signatures/match/rule_lint.hpp"
#include "signatures/match/rule_reader.hpp"
#include "signatures/plan/rule_fixes.hpp"

using namespace triage;
using namespace triage::signatures;

TEST_CASE("the shipped rules are read without faults") {
  const ReadRules read = read_rules(embedded_rule_files());
  INFO(parsers::error_text(read.faults));
  CHECK(read.faults.empty());
  CHECK(read.rules.size() >= 150);
}

TEST_CASE("the shipped rules compile and their examples hold") {
  ReadRules read = read_rules(embedded_rule_files());
  std::vector<parsers::Error> faults;
  const auto set = SignatureSet::compile(std::move(read.rules), {}, faults);
  INFO(parsers::error_text(faults));
  REQUIRE(set);
  CHECK(set->literals().size() >= 300);
  TrialBudget budget(*set);
  const std::vector<parsers::Error> examples = check_examples(*set, budget);
  INFO(parsers::error_text(examples));
  CHECK(examples.empty());
  CHECK_FALSE(budget.used_up());
}

TEST_CASE("the shipped rules are lint clean") {
  std::vector<parsers::Error> broken;
  const auto set = SignatureSet::compile_rest(read_rules(embedded_rule_files()).rules, {}, broken);
  TrialBudget budget(*set);
  const std::vector<parsers::Error> faults = lint(*set, budget);
  INFO(parsers::error_text(faults));
  CHECK(faults.empty());
}

TEST_CASE("the fixes that shipped rules name are in the catalogue, and one that is not is told with what was meant") {
  const auto catalogue = read_catalogue(embedded_fixes()).fixes;
  auto rules = read_rules(embedded_rule_files()).rules;
  const std::vector<parsers::Error> faults = unknown_fixes(rules, catalogue);
  INFO(parsers::error_text(faults));
  CHECK(faults.empty());
  rules.resize(1);
  rules[0].fixes = {"recompute", "recompute.full_uniform", "recompute.full_unifrom", "micro_bach"};
  const std::vector<parsers::Error> told = unknown_fixes(rules, catalogue);
  REQUIRE(told.size() == 2);
  CHECK(told[0].help_text() == "did you mean 'recompute.full_uniform'?");
  CHECK(told[1].help_text() == "did you mean 'micro_batch'?");
}
