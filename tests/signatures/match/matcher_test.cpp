// Candidates of a block, conditions of rules, captures, and what silences what.
#include "signatures/match/matcher.hpp"

#include <doctest/doctest.h>

#include "parsers/base/limits.hpp"
#include "parsers/base/visible.hpp"
#include "parsers/records/prefix.hpp"
#include "signatures/match/capture.hpp"
#include "signatures/match/explain.hpp"
#include "signatures/match/rule_examples.hpp"

using namespace triage;
using namespace triage::signatures;

namespace {

constexpr std::string_view kRules = R"(
- id: t.size
  kind: gpu.oom
  role: root
  match: 'frobnicator (?P<n>\d+) wants (?P<size>[\d.]+ GiB)'
  unless: ['found again']
  captures: {n: integer, size: bytes}
  fixes: [process]
  summary: frobnicator {n} wants too much
  help: h
  sources: [t]
  examples: ['frobnicator 3 wants 2.00 GiB']
  counter_examples: ['fine']
- id: t.kind
  kind: gpu.xid.{code}
  role: root
  match: 'gizmo code (?P<code>\d+)'
  captures: {code: integer}
  within: kernel
  fixes: [hardware]
  summary: s
  help: h
  sources: [t]
  examples: ['[   12.345678] gizmo code 79']
  counter_examples: ['fine']
- id: t.caught
  kind: user.exception
  role: handled
  match: 'was caught by the trainer'
  summary: s
  sources: [t]
  examples: ['it was caught by the trainer']
  counter_examples: ['fine']
- id: t.advice
  kind: none
  role: advice
  match: 'please consider reading'
  summary: s
  sources: [t]
  examples: ['please consider reading the manual']
  counter_examples: ['fine']
)";

std::shared_ptr<const SignatureSet> set_of(std::string_view yaml, std::span<const std::string_view> extra = {}) {
  const RuleFile file{"t.yaml", yaml};
  ReadRules read = read_rules({&file, 1});
  for (const auto& fault : read.faults) MESSAGE(fault.message());
  REQUIRE(read.faults.empty());
  std::vector<parsers::Error> faults;
  auto set = SignatureSet::compile(std::move(read.rules), extra, faults);
  for (const auto& fault : faults) MESSAGE(fault.message());
  REQUIRE(set);
  return set;
}

std::vector<parsers::Error> faults_of(std::string_view yaml) {
  const auto set = set_of(yaml);
  TrialBudget budget(*set);
  return check_examples(*set, budget);
}

// Rules that fire on the line, as the intake would ask.
std::vector<Finding> findings(Matcher& matcher, std::string_view text) {
  std::vector<Candidate> candidates;
  const std::size_t count = matcher.scan(text, candidates);
  std::vector<Finding> out;
  parsers::Peeler peeler(2026);
  for (std::size_t i = 0; i < count; ++i) {
    parsers::Line line;
    line.text = text.substr(candidates[i].begin, candidates[i].end - candidates[i].begin);
    line.offset = candidates[i].begin;
    const parsers::Record record = peeler.peel(line);
    matcher.match(record, context_of(record), candidates[i].rules, out);
  }
  return out;
}

}  // namespace

TEST_CASE("a rule fires where its pattern, its place and its 'unless' allow") {
  Matcher matcher(set_of(kRules));
  const struct {
    std::string_view line;
    std::vector<std::string> rules;
  } rows[] = {
      {"[rank3]: frobnicator 12 wants 2.50 GiB", {"t.size"}},
      {"frobnicator 12 wants 2.50 GiB, found again", {}},
      {"frobnicator twelve wants 2.50 GiB", {}},
      {"[   12.345678] gizmo code 79", {"t.kind"}},
      {"gizmo code 79", {}},
      {"frobnicator 12 wants 2.50 GiB, was caught by the trainer", {"t.caught"}},
      {"frobnicator 12 wants 2.50 GiB, please consider reading", {"t.advice"}},
      {"a healthy line", {}},
      {"", {}},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.line));
    std::vector<std::string> got;
    for (const Finding& finding : findings(matcher, row.line)) got.push_back(finding.rule);
    CHECK(got == row.rules);
  }
}

TEST_CASE("of a line longer than what is kept, the part that the rule matched is kept") {
  Matcher matcher(set_of(kRules));
  std::string umlauts;
  while (umlauts.size() < 20'000) umlauts += "\xc3\xa4";
  for (const std::string& filler : {std::string(20'000, 'x'), "y" + umlauts, umlauts}) {
    const std::vector<Finding> late = findings(matcher, "[rank3]: " + filler + " frobnicator 12 wants 2.50 GiB" + filler);
    REQUIRE(late.size() == 1);
    CHECK(late[0].text.find("frobnicator 12 wants 2.50 GiB") != std::string::npos);
    CHECK_FALSE(late[0].text.starts_with("\xef\xbf\xbd"));   // no half character
    CHECK(late[0].text.size() <= parsers::limits::kEvidenceBytes + 3);
    CHECK(late[0].rank == 3);
    CHECK(late[0].length > 40'000);
    const std::vector<Finding> early = findings(matcher, "[rank3]: frobnicator 12 wants 2.50 GiB" + filler);
    REQUIRE(early.size() == 1);
    CHECK(early[0].text.starts_with("[rank3]: frobnicator"));
  }
}

TEST_CASE("a sentence leaves out what only leads to an unknown value") {
  const std::vector<std::pair<std::string, CaptureValue>> values{{"call", std::string("ibv_create_qp")}, {"why", std::string(" ")}};
  for (const auto& row : {std::pair("The call {call} failed: {why}", "The call ibv_create_qp failed."), std::pair("It failed: {why}.", "It failed."),
                                   std::pair("A link went down ({nic}).", "A link went down."), std::pair("{nic} failed: {call}", "? failed: ibv_create_qp")}) {
    CAPTURE(std::string(row.first));
    CHECK(fill_sentence(row.first, values) == row.second);
  }
}

TEST_CASE("captures come with their types, and fill kind and summary") {
  Matcher matcher(set_of(kRules));
  const auto sized = findings(matcher, "[rank3]: frobnicator 12 wants 2.50 GiB");
  REQUIRE(sized.size() == 1);
  CHECK(sized[0].rank == 3);
  CHECK(sized[0].summary == "frobnicator 12 wants too much");
  REQUIRE(sized[0].captures.size() == 2);
  CHECK(std::get<std::int64_t>(sized[0].captures[0].second) == 12);
  CHECK(std::get<parsers::Bytes>(sized[0].captures[1].second) == parsers::gib(2.5));
  const auto kind = findings(matcher, "[   12.345678] gizmo code 79");
  REQUIRE(kind.size() == 1);
  CHECK(kind[0].kind == "gpu.xid.79");
}

TEST_CASE("candidates are whole lines, in order, each with its rules and extra literals") {
  const std::string_view extra[] = {"wake me up now"};
  Matcher matcher(set_of(kRules, extra));
  const std::string block = "x\nfrobnicator 1 wants\n\nplain\nwake me up now, frobnicator 2 wants\nno end, wake me up now";
  std::vector<Candidate> candidates;
  REQUIRE(matcher.scan(block, candidates) == 3);
  CHECK(block.substr(candidates[0].begin, candidates[0].end - candidates[0].begin) == "frobnicator 1 wants");
  CHECK(candidates[0].extra.empty());
  CHECK(candidates[1].rules.size() == 1);
  CHECK(candidates[1].extra == std::vector<std::uint32_t>{0});
  CHECK(candidates[2].end == block.size());
  CHECK(matcher.scan("nothing", candidates) == 0);
}

TEST_CASE("the hash follows what decides about matches, and nothing else") {
  std::string other(kRules), words(kRules);
  other.replace(other.find("found again"), 11, "found twice");
  words.replace(words.find("wants too much"), 14, "wants too more");
  const std::string hash = set_of(kRules)->hash();
  CHECK(set_of(kRules)->hash() == hash);
  CHECK(set_of(other)->hash() != hash);
  CHECK(set_of(words)->hash() == hash);
}

TEST_CASE("faults of a set are all told, with their place") {
  const RuleFile file{"bad.yaml",
                      "- id: a.b\n  kind: user.x\n  role: root\n  match: 'broken (('\n  sources: [t]\n  examples: ['x']\n  counter_examples: ['y']\n"
                      "- id: a.c\n  kind: user.x\n  role: root\n  match: 'a long literal (?P<n>x)'\n  captures: {m: integer}\n  sources: [t]\n"
                      "  examples: ['x']\n  counter_examples: ['y']\n"};
  ReadRules read = read_rules({&file, 1});
  std::vector<parsers::Error> faults = std::move(read.faults);
  CHECK_FALSE(SignatureSet::compile(std::move(read.rules), {}, faults));
  CHECK(faults.size() >= 2);
  for (const auto& fault : faults) {
    REQUIRE(fault.place());
    CHECK(fault.place()->file == "bad.yaml");
    CHECK(fault.place()->line.value_or(0) > 0);
  }
}

TEST_CASE("the skeleton of a rule matches the line it was made from") {
  for (const std::string_view line : {
           "FooError: lost the frobnicator 17 of rank 3",
           "[rank3]: RuntimeError: it's broken (really) at 0x7f1c: asked for 2.50 GiB, 12 left",
           "2024-01-01 10:00:00,123 - train - ERROR - loader [7] gave up after 3.5 seconds?",
           "a line with 'quotes', a back\\slash, a colon: and a # sign",
           "a\ttab \"and\" a back\\slash",
           "peer 10.0.0.1 of rank 99999999999 gave up at pid 12345678901234567890",
           "GPU 12.5% used by rank 1.5",
           "\x1b[31mred\x1b[0m FooError: a \x7f b",
           "FooError: \xe2\x80\xae turned \xc2\x85 17",
           "FooError: bad read at 0xdeadbeef, 0x12, 0xyz of node-3",
           "FooError: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
       }) {
    CAPTURE(std::string(line));
    const auto faults = faults_of(new_rule(line));
    for (const auto& fault : faults) MESSAGE(fault.message());
    CHECK(faults.empty());
    CHECK(parsers::visible(new_rule(line), true) == new_rule(line));   // nothing in it steers a terminal
  }
  const std::string umlauts = "FooError: " + std::string(389, 'x') + "\xc3\xa4\xc3\xb6";   // 400 bytes end within a character
  CHECK(faults_of(new_rule(umlauts)).empty());
}

TEST_CASE("an explanation names the rule, its capture or the condition that failed") {
  const auto set = set_of(kRules);
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"frobnicator 12 wants 2.50 GiB", "t.size"},
      {"frobnicator 12 wants 2.50 GiB, found again", "found again"},
      {"gizmo code 79", "within: kernel"},
  };
  for (const auto& row : rows) {
    const auto& [line, wanted] = row;
    CAPTURE(std::string(row.first));
    const std::string text = explain(*set, line);
    CAPTURE(text);
    CHECK(text.find(wanted) != std::string::npos);
  }
}

TEST_CASE("text of a line in a kind is one part of a name, and what a summary repeats is bounded") {
  const auto set = set_of(
      "- id: a.b\n  kind: user.x.{what}\n  role: root\n  match: 'frobnicator is (?P<what>.*)'\n  captures: {what: text}\n"
      "  summary: 'it is {what}, {what}, {what} and {what}'\n  help: h\n  sources: [t]\n  examples: ['frobnicator is x']\n  counter_examples: ['y']\n");
  struct Row {
    std::string text, kind;
  };
  for (const Row& row : {Row{"frobnicator is gone", "user.x.gone"}, {"frobnicator is A/../b <script>|", "user.x.a____b__script__"},
                         {"frobnicator is " + std::string(60'000, 'q'), "user.x." + std::string(32, 'q')}}) {
    const std::vector<LineTrial> lines = try_text(*set, row.text);
    REQUIRE(lines.size() == 1);
    REQUIRE(lines[0].findings.size() == 1);
    CHECK(lines[0].findings[0].kind == row.kind);
    CHECK(lines[0].findings[0].summary.size() <= parsers::limits::kEvidenceBytes + 20);
  }
}
