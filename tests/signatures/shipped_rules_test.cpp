// The rules that are compiled into the program: readable, examples hold, lint clean, fast enough to start with.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "parsers/base/error_text.hpp"
#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_examples.hpp"
#include "signatures/match/rule_lint.hpp"
#include "signatures/match/rule_reader.hpp"

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
  const std::vector<parsers::Error> examples = check_examples(*set);
  INFO(parsers::error_text(examples));
  CHECK(examples.empty());
}

TEST_CASE("the shipped rules are lint clean") {
  const ReadRules read = read_rules(embedded_rule_files());
  const std::vector<parsers::Error> faults = lint(read.rules);
  INFO(parsers::error_text(faults));
  CHECK(faults.empty());
}
