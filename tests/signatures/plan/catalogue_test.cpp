#include <array>
#include <string>

#include <doctest/doctest.h>

#include "signatures/plan/catalogue.hpp"

using namespace triage::signatures;
using triage::parsers::EmbeddedFile;

namespace {

ReadCatalogue read(const std::string& text) {
  const std::array files = {EmbeddedFile{"fixes/test.yaml", text}};
  return read_catalogue(files);
}

const std::string kGood = R"(
- id: micro_batch.halve
  title: Halve it
  apply:
    megatron-lm: ["--micro-batch-size {micro_batch / 2}", "--micro-batch-size half"]
    any: half
  reduces: [activations, logits]
  kinds: [gpu.oom.capacity]
  phases: [forward, loss]
  requires:
    - micro_batch > 1
    - {check: world > 1, say: several ranks}
  excludes: ["micro_batch == 1"]
  change: {micro_batch: floor(micro_batch / 2)}
  cost: {step_time_percent: [-2, 30.5], note: slower}
  disruption: 2
  order: {forward: 80, gpu.oom.leak: 3, any: 10}
  boosts: [{when: micro_batch > 8, add: 5}]
  why: ["it is {micro_batch}", it is large]
  assumes: [nothing]
  sources: [a test]
)";

}  // namespace

TEST_CASE("an entry is read with all of its fields") {
  const ReadCatalogue got = read(kGood);
  REQUIRE(got.faults.empty());
  REQUIRE(got.fixes.size() == 1);
  const CatalogueFix& fix = got.fixes[0];
  CHECK(fix.id == "micro_batch.halve");
  CHECK(fix.family == "micro_batch");
  CHECK(fix.apply.size() == 2);
  CHECK(fix.phases == std::vector<Phase>{Phase::forward, Phase::loss});
  CHECK(fix.needs.size() == 2);
  CHECK(fix.needs[1].say == "several ranks");
  CHECK(fix.cost.step_time_low_percent == -2);
  CHECK(fix.cost.step_time_high_percent == 30.5);
  CHECK(fix.disruption == 2);
  CHECK(fix.order.size() == 3);
  REQUIRE(fix.change.size() == 1);
  CHECK(fix.change[0].first == triage::parsers::Key::micro_batch);
}

TEST_CASE("every fault of an entry is told with its line, and the entry is left out") {
  struct Row {
    const char* from;
    const char* to;
    const char* message;
    std::uint64_t line;
  };
  for (const Row& row : {
           Row{"id: micro_batch.halve", "id: halve", "form family.name", 2},
           Row{"id: micro_batch.halve", "id: batch.halve", "no family 'batch'", 2},
           Row{"  title: Halve it\n", "", "needs a title", 2},
           Row{"megatron-lm:", "megatron-ml:", "no framework or environment 'megatron-ml'", 5},
           Row{"activations, logits", "activations, logit", "'logit' is not a term", 7},
           Row{"phases: [forward", "phases: [forwards", "'forwards' is not a phase", 9},
           Row{"micro_batch > 1\n", "micro_batches > 1\n", "cannot be read", 11},
           Row{"check: world", "test: world", "a map of 'check' and 'say'", 12},
           Row{"change: {micro_batch", "change: {microbatch", "no setting 'microbatch'", 14},
           Row{"[-2, 30.5]", "[30.5, -2]", "the lower one first", 15},
           Row{"disruption: 2", "disruption: 4", "from 0 to 3", 16},
           Row{"gpu.oom.leak: 3", "gpu.oom.leak: x", "not a whole number", 17},
           Row{"add: 5", "adds: 5", "'when' and 'add'", 18},
           Row{"  why: [\"it is {micro_batch}\", it is large]\n", "", "needs a 'why'", 2},
           Row{", it is large]", "]", "may not state", 19},
           Row{"sources: [a test]", "sources: []", "needs a source", 2},
           Row{"assumes:", "assume:", "no key 'assume'", 20},
       }) {
    std::string text = kGood;
    const std::size_t at = text.find(row.from);
    CAPTURE(std::string(row.from));
    CAPTURE(std::string(row.to));
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(row.from).size(), row.to);
    const ReadCatalogue got = read(text);
    CHECK(got.fixes.empty());
    REQUIRE(!got.faults.empty());
    CAPTURE(got.faults[0].message());
    CHECK(got.faults[0].message().find(row.message) != std::string::npos);
    REQUIRE(got.faults[0].place());
    CHECK(got.faults[0].place()->line == row.line);
  }
}

TEST_CASE("an id that stands twice, a file that is no list and text that is no YAML are faults; other entries stay") {
  const ReadCatalogue twice = read(kGood + kGood.substr(1));
  CHECK(twice.fixes.size() == 1);
  REQUIRE(twice.faults.size() == 1);
  CHECK(twice.faults[0].message().find("stands twice") != std::string::npos);
  CHECK(read("a: 1\n").faults.size() == 1);
  CHECK(read("- [\n").faults.size() == 1);
  CHECK(read("").faults.empty());
  CHECK(read("- text\n").faults.size() == 1);
}
