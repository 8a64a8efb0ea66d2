// What the user's rule files are told: all of it in one answer, and nothing that only follows from something told.
#include "daemon/pipeline/knowledge.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "parsers/base/error_text.hpp"

using namespace triage;
using namespace triage::daemon;

namespace {

// A rule that has no fault, with some of its lines replaced.
std::string rule(std::string id, const std::vector<std::pair<std::string, std::string>>& other = {}) {
  std::vector<std::pair<std::string, std::string>> keys = {{"kind", "user.exception"},
                                                           {"role", "root"},
                                                           {"match", "'" + id + " lost frobnicator (?P<n>\\d+)'"},
                                                           {"captures", "{n: integer}"},
                                                           {"fixes", "[process]"},
                                                           {"summary", "'frobnicator {n} is gone'"},
                                                           {"sources", "[mine]"},
                                                           {"examples", "['" + id + " lost frobnicator 7']"},
                                                           {"counter_examples", "['" + id + " found frobnicator 7']"}};
  for (const auto& [key, value] : other) {
    bool found = false;
    for (auto& [name, was] : keys)
      if (name == key) was = value, found = true;
    if (!found) keys.emplace_back(key, value);
  }
  std::string out = "- id: " + id + "\n";
  for (const auto& [key, value] : keys)
    if (value != "-") out += "  " + key + ": " + value + "\n";
  return out;
}

std::string many_groups(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "(a)";
  return out;
}

std::string many_names(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "{n}";
  return out;
}

std::vector<std::string> told(const std::vector<parsers::Error>& errors) {
  std::vector<std::string> out;
  for (const parsers::Error& error : errors) {
    REQUIRE(error.place());
    out.push_back(error.place()->file + ":" + std::to_string(error.place()->line.value_or(0)) + " " + error.message());
  }
  return out;
}

LoadedKnowledge load(const std::vector<std::string>& texts, bool checked = true) {
  static const std::string names[] = {"a.yaml", "b.yaml", "c.yaml"};
  std::vector<signatures::RuleFile> files;
  for (std::size_t i = 0; i < texts.size(); ++i) files.push_back({names[i], texts[i]});
  return load_knowledge(files, checked);
}

}  // namespace

TEST_CASE("a rule without a fault is taken") {
  const LoadedKnowledge loaded = load({rule("my.a") + rule("my.b")});
  INFO(parsers::error_text(loaded.faults));
  CHECK(loaded.knowledge);
  CHECK(loaded.notes.empty());
}

TEST_CASE("faults of reader, patterns, lint, catalogue and examples come in one answer, by place") {
  const std::string text = rule("my.a", {{"weight", "7"}, {"examples", "['my.a found nothing']"}}) +                // 1..11: reader, example
                           rule("my.b", {{"match", "'broken (('"}, {"kind", "nonsense.x"}, {"fixes", "[recompte]"}}) +   // 12: pattern, lint, catalogue
                           rule("my.c", {{"rol", "root"}, {"role", "-"}, {"counter_examples", "['my.c lost frobnicator 8']"}}) +
                           rule("my.a") + "- just text\n";
  for (const bool checked : {true, false}) {
    const LoadedKnowledge loaded = load({text}, checked);
    CHECK_FALSE(loaded.knowledge);
    CHECK(told(loaded.faults) == std::vector<std::string>{"a.yaml:9 rule 'my.a' does not fire on its example",
                                                           "a.yaml:11 'weight' has to be a number from -1 to 1",
                                                           "a.yaml:12 rule 'my.b': the pattern is not valid: broken ((",
                                                           "a.yaml:12 rule 'my.b': the kind 'nonsense.x' is not known",
                                                           "a.yaml:12 rule 'my.b': there is no fix 'recompte'",
                                                           "a.yaml:30 rule 'my.c' fires on its counter-example",
                                                           "a.yaml:31 unknown key 'rol'",
                                                           "a.yaml:32 the id 'my.a' stands twice",
                                                           "a.yaml:42 a rule has to be a map of keys"});
    CHECK(loaded.notes.empty());
  }
}

TEST_CASE("each fault is told once, and what follows from it is not") {
  struct Row {
    const char* name;
    std::vector<std::string> texts;
    std::vector<std::string> faults, notes;
  };
  const Row rows[] = {
      {"a bad pattern is no missing literal", {rule("my.a", {{"match", "'('"}, {"captures", "-"}, {"summary", "s"}})}, {"a.yaml:1 rule 'my.a': the pattern is not valid: ("}, {}},
      {"one of two patterns", {rule("my.a", {{"match", "['my.a lost frobnicator (?P<n>\\d+)', '*']"}, {"examples", "['my.a asterisk']"}})}, {"a.yaml:1 rule 'my.a': the pattern is not valid: *"}, {}},
      {"a bad 'unless' does not make counter-examples fire",
       {rule("my.a", {{"unless", "['never mind (']"}, {"counter_examples", "['my.a lost frobnicator 7, never mind (it']"}})},
       {"a.yaml:1 rule 'my.a': the pattern is not valid: never mind ("},
       {}},
      {"a bad type of a capture", {rule("my.a", {{"captures", "{n: intger}"}, {"examples", "[{line: my.a lost frobnicator 7, expect: {n: 7}}]"}})}, {"a.yaml:5 'captures.n' cannot be 'intger'"}, {}},
      {"a group without a capture, also in a text", {rule("my.a", {{"captures", "-"}})}, {"a.yaml:1 rule 'my.a': the group 'n' has no capture"}, {}},
      {"a misspelt key is not a missing one", {rule("my.a", {{"examples", "-"}, {"exampels", "['x']"}, {"sources", "-"}, {"source", "[x]"}})},
       {"a.yaml:9 unknown key 'exampels'", "a.yaml:10 unknown key 'source'"}, {}},
      {"a bad within", {rule("my.a", {{"within", "kernels"}, {"counter_examples", "['my.a lost frobnicator 7']"}})}, {"a.yaml:11 'within' cannot be 'kernels'"}, {}},
      {"a short literal of one's own", {rule("my.a", {{"literals", "['x']"}})}, {"a.yaml:1 rule 'my.a': the literal 'x' cannot be looked for"}, {}},
      {"an unknown parser", {rule("my.a", {{"parser", "torch_omo"}})}, {"a.yaml:1 rule 'my.a': there is no parser 'torch_omo'"}, {}},
      {"two of one id with other kinds", {rule("my.a"), rule("my.a", {{"kind", "data.x"}})}, {"b.yaml:1 the id 'my.a' stands twice"}, {}},
      {"two of one id, and an example that fails in the second", {rule("my.a"), rule("my.a", {{"examples", "['nothing']"}})},
       {"b.yaml:1 the id 'my.a' stands twice", "b.yaml:9 rule 'my.a' does not fire on its example"}, {}},
      {"an id in a file that cannot be read may be the one that is ended",
       {"- id: my.b\n  kind: [\n", rule("my.a", {{"role", "progress"}, {"ends", "[my.b]"}})}, {"a.yaml:3 not valid YAML"}, {}},
      {"a disabled rule with a wrong flag", {"- {id: torch.cuda.oom, disable: yes}\n"}, {"a.yaml:1 'disable' has to be true or false"}, {}},
      {"a replaced rule with a fault is still the one that is replaced",
       {rule("torch.cuda.oom", {{"version", "x"}, {"match", "'CUDA out of memory\\. Tried to allocate (?P<n>\\d+)'"}, {"unless", "['(']"}, {"examples", "['CUDA out of memory. Tried to allocate 2']"}})},
       {"a.yaml:1 rule 'torch.cuda.oom': the pattern is not valid: (", "a.yaml:11 'version' has to be a whole number from 1"}, {}},
      {"a pattern with too many groups", {rule("my.a", {{"match", "'" + many_groups(101) + "'"}, {"captures", "-"}, {"summary", "s"}})},
       {"a.yaml:1 rule 'my.a': the pattern has 101 groups: " + many_groups(101)}, {}},
      {"a pattern that compiles to too much", {rule("my.a", {{"match", "'frobnicator (?:a{1,1000}|b{1,1000}|c{1,1000}|d{1,1000}|e{1,1000}|f{1,1000}|g{1,1000}|h{1,1000}|i{1,1000}|j{1,1000}|k{1,1000})'"}, {"captures", "-"}, {"summary", "s"}})},
       {"a.yaml:1 rule 'my.a': the pattern compiles to 22005 instructions: frobnicator (?:a{1,1000}|b{1,1000}|c{1,1000}|d{1,1000}|e{1,1000}|f{1,1000}|g{1,1000}|h{1,1000}|i{1,1000}|j{1,1000}|k{1,1000})"}, {}},
      {"rules that contradict each other",
       {rule("my.a", {{"match", "'lost frobnicator (?P<n>\\d+)'"}}), rule("my.b", {{"kind", "data.x"}, {"match", "'lost frobnicator (?P<n>\\d+)'"}})},
       {},
       {"b.yaml:1 rule 'my.b': it has the patterns of 'my.a'"}},
      {"rules that contradict each other by other patterns",
       {rule("my.a", {{"match", "'lost frobnicator (?P<n>\\d+)'"}}), rule("my.b", {{"kind", "data.x"}, {"match", "'(?:lost|gone) frobnicator (?P<n>\\d+)'"}})},
       {},
       {"a.yaml:1 rule 'my.a': its example also fires 'my.b' of kind 'data.x'", "b.yaml:1 rule 'my.b': its example also fires 'my.a' of kind 'user.exception'"}},
      {"a text that names very many captures", {rule("my.a", {{"summary", "'" + many_names(33) + "'"}})}, {"a.yaml:1 rule 'my.a': the summary names 33 captures"}, {}},
      {"a brace that is a slip", {rule("my.a", {{"summary", "'frobnicator { n } is gone'"}})}, {}, {"a.yaml:1 rule 'my.a': the summary has a brace that names no capture"}},
      {"a parser of other lines", {rule("my.a", {{"parser", "torch_oom"}})}, {"a.yaml:1 rule 'my.a': the parser 'torch_oom' reads nothing from its examples"}, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const LoadedKnowledge loaded = load(row.texts);
    CHECK(told(loaded.faults) == row.faults);
    CHECK(told(loaded.notes) == row.notes);
    CHECK((loaded.knowledge == nullptr) == !row.faults.empty());
  }
}

TEST_CASE("a file of many faults is told in its first ones and a count") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += rule("my.r" + std::to_string(i), {{"examples", "-"}, {"sources", "-"}});
  const LoadedKnowledge loaded = load({text, rule("my.a", {{"match", "'('"}})});
  CHECK_FALSE(loaded.knowledge);
  const std::string shown = parsers::error_text(parsers::first_of_each_file(loaded.faults)) + parsers::error_text(parsers::first_of_each_file(loaded.notes));
  CHECK(shown.size() < 12'000);
  CHECK(shown.find("and 1980 more in this file") != std::string::npos);
  CHECK(shown.find("b.yaml:1") != std::string::npos);
}

TEST_CASE("a user's rule that silences shipped ones refuses the file, told once at that rule") {
  for (const auto& row : {std::pair<std::string, std::string>{"my.a", "Error"}, {"torch.cuda.oom", "e"}}) {
    const std::string id = row.first, match = row.second;   // clang 14 captures no structured binding
    CAPTURE(id);
    const LoadedKnowledge loaded = load({rule(id, {{"role", "advice"}, {"match", "'" + match + "'"}, {"captures", "-"}, {"summary", "s"}, {"fixes", "-"}, {"examples", "['an Error e']"}, {"counter_examples", "['']"}})});
    CHECK_FALSE(loaded.knowledge);
    std::size_t blames = 0;
    for (const std::string& fault : told(loaded.faults)) blames += fault.find("it silences an example of") != std::string::npos ? 1 : 0;
    CHECK(blames == 1);
    CHECK(loaded.faults.size() < 5);
  }
}

TEST_CASE("a text of megabytes in a rule makes no error of megabytes") {
  std::string summary;
  for (int i = 0; i < 30'000; ++i) summary += "{name" + std::to_string(i) + "}";
  const LoadedKnowledge loaded = load({rule("my.a", {{"summary", "'" + summary.substr(0, 120'000) + "'"}, {"kind", "'" + std::string(100'000, 'k') + "'"}})});
  CHECK_FALSE(loaded.knowledge);
  std::size_t bytes = 0;
  for (const parsers::Error& fault : loaded.faults) bytes += fault.message().size() + fault.reason().size() + fault.help_text().size();
  CHECK(bytes < 10'000);
}
