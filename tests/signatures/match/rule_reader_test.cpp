#include "signatures/match/rule_reader.hpp"

#include <doctest/doctest.h>

#include <string>

#include "parsers/base/error_text.hpp"

using namespace triage;
using namespace triage::signatures;

namespace {

ReadRules read_text(const std::string& text) {
  const RuleFile file{"f.yaml", text};
  return read_rules(std::span(&file, 1));
}

constexpr const char* kWhole = R"y(
- id: torch.cuda.oom
  kind: gpu.oom
  role: root
  version: 3
  match:
    - 'CUDA out of memory\. Tried to allocate (?P<tried>[\d.]+ [KMGT]iB)'
    - 'second'
  literals: ['CUDA out of memory']
  unless: 'will retry'
  within: exception
  captures: {tried: bytes}
  parser: torch_oom
  fixes: [recompute, micro_batch]
  summary: The device had no {tried} left.
  help: Lower the batch.
  weight: -0.5
  sources: ['pytorch/pytorch: c10/cuda/CUDACachingAllocator.cpp']
  no_literal: since
  examples:
    - line: 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'
      expect: {tried: 2147483648}
    - 'plain text'
  counter_examples:
    - 'To avoid it'
)y";

}  // namespace

TEST_CASE("every key of a rule is read") {
  const ReadRules read = read_text(kWhole);
  INFO(parsers::error_text(read.faults));
  REQUIRE(read.faults.empty());
  REQUIRE(read.rules.size() == 1);
  const Signature& rule = read.rules[0];
  CHECK(rule.id == "torch.cuda.oom");
  CHECK(rule.kind == "gpu.oom");
  CHECK(rule.role == Role::root);
  CHECK(rule.version == 3);
  CHECK(rule.match.size() == 2);
  CHECK(rule.literals == std::vector<std::string>{"CUDA out of memory"});
  CHECK(rule.unless == std::vector<std::string>{"will retry"});
  CHECK(rule.within == Within::exception);
  REQUIRE(rule.captures.size() == 1);
  CHECK(rule.captures[0].name == "tried");
  CHECK(rule.captures[0].type == CaptureType::bytes);
  CHECK(rule.parser == "torch_oom");
  CHECK(rule.fixes.size() == 2);
  CHECK(rule.summary == "The device had no {tried} left.");
  CHECK(rule.help == "Lower the batch.");
  CHECK(rule.weight == -0.5);
  CHECK(rule.no_literal == "since");
  REQUIRE(rule.examples.size() == 2);
  CHECK(rule.examples[0].expect[0].second == "2147483648");
  CHECK(rule.examples[0].place.line == 21u);
  CHECK(rule.examples[1].text == "plain text");
  CHECK(rule.counter_examples.size() == 1);
  CHECK(rule.place.file == "f.yaml");
  CHECK(rule.place.line == 2u);
}

TEST_CASE("all faults at once, each with its line and help") {
  const ReadRules read = read_text(R"y(- id: a.b
  kind: [x]
  role: rot
  within: kernels
  version: "2"
  weight: 7
  match: {a: b}
  captures: {n: byte}
  exampels: ['x']
  disable: true
- id: a.b
  kind: x
  role: root
  match: y
- kind: x
- just text
- id: good.one
  kind: x
  role: fact
  match: y
)y");
  const std::string text = parsers::error_text(read.faults);
  INFO(text);
  const char* wanted[] = {"'kind' has to be text, it is list", "f.yaml:2:", "'role' cannot be 'rot'", "did you mean 'root'?", "f.yaml:3:", "did you mean 'kernel'?",
                          "'version' has to be a whole number", "'weight' has to be", "'match' has to be text or a list", "did you mean 'bytes'?",
                          "unknown key 'exampels'", "did you mean 'examples'?", "f.yaml:9:3", "unknown key 'disable'", "the id 'a.b' stands twice", "the first one is at f.yaml:1",
                          "the rule has no id", "has no role", "a rule has to be a map"};
  for (const char* part : wanted) {
    CAPTURE(std::string(part));
    CHECK(text.find(part) != std::string::npos);
  }
  REQUIRE(read.rules.size() == 4);   // all but the text
  CHECK(read.rules[0].unread == std::vector<std::string>{"kind", "role", "within", "version", "weight", "match", "captures", "examples"});
  CHECK(read.rules[1].unread == std::vector<std::string>{"id"});
  CHECK(read.rules[3].id == "good.one");
  CHECK(read.rules[3].unread.empty());
  CHECK_FALSE(read.complete);
}

TEST_CASE("a bad file does not hide the next one") {
  const RuleFile files[] = {{"bad.yaml", "a: b\n"}, {"worse.yaml", "- 'x\n"}, {"empty.yaml", ""}, {"good.yaml", "- {id: a.b, kind: x, role: root, match: y}\n"}};
  const ReadRules read = read_rules(files);
  CHECK(read.faults.size() == 2);
  CHECK(read.rules.size() == 1);
}

TEST_CASE("user files replace, add and disable by id") {
  const ReadRules shipped = read_text("- {id: a.one, kind: x, role: root, match: y}\n- {id: a.two, kind: x, role: root, match: y}\n");
  const RuleFile user{"u.yaml", "- {id: a.one, disable: true}\n- {id: a.two, kind: z, role: fact, match: q}\n- {id: a.three, kind: z, role: fact, match: q}\n"
                                "- {id: a.none, disable: true}\n- {id: a.four, disable: true, kind: x}\n"};
  const ReadRules both = override_rules(shipped.rules, std::span(&user, 1));
  INFO(parsers::error_text(both.faults));
  CHECK(both.faults.size() == 1);   // a.none may be a rule of the entry that could not be read
  CHECK_FALSE(both.complete);
  REQUIRE(both.rules.size() == 2);
  CHECK(both.rules[0].id == "a.two");
  CHECK(both.rules[0].kind == "z");
  CHECK(both.rules[1].id == "a.three");
}
