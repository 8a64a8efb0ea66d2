#include "signatures/match/rule_examples.hpp"

#include <algorithm>
#include <string>

#include "parsers/base/text.hpp"
#include "signatures/match/capture.hpp"

namespace triage::signatures {
namespace {

using parsers::Error;
using parsers::ErrorCode;

// Of the rule with that index, on any line. Two rules of one id are told apart by what matched.
const Finding* fired(const std::vector<LineTrial>& lines, std::uint32_t index, const std::string& id) {
  for (const LineTrial& line : lines) {
    const auto at = std::find(line.rules.begin(), line.rules.end(), index);
    if (at == line.rules.end() || line.attempts[static_cast<std::size_t>(at - line.rules.begin())].end != Attempt::End::matched) continue;
    for (const Finding& finding : line.findings)
      if (finding.rule == id) return &finding;
  }
  return nullptr;
}

// The furthest that the rule came on any line, and why not further.
struct Silence {
  enum class Step { no_literal, no_pattern, condition, silenced } step = Step::no_literal;
  std::string reason = "no literal of the rule stands in it";
};

Silence silence_of(const std::vector<LineTrial>& lines, std::uint32_t rule) {
  using Step = Silence::Step;
  Silence out;
  for (const LineTrial& line : lines) {
    const auto at = std::find(line.rules.begin(), line.rules.end(), rule);
    if (at == line.rules.end()) continue;
    const Attempt& attempt = line.attempts[static_cast<std::size_t>(at - line.rules.begin())];
    const Step step = attempt.end == Attempt::End::no_pattern ? Step::no_pattern : attempt.end == Attempt::End::matched ? Step::silenced : Step::condition;
    if (step <= out.step) continue;
    out = {step, attempt.detail};
    if (step == Step::no_pattern) out.reason += " (message: " + line.message + ")";
    if (step == Step::silenced) out.reason = "another rule silences it: " + (line.findings.empty() ? std::string("unknown") : line.findings.front().rule);
  }
  return out;
}

// "32" and "32.0" are one number.
bool same_value(const CaptureValue& got, const std::string& wanted) {
  if (const auto* real = std::get_if<double>(&got)) return parsers::read_double(wanted) == *real;
  return capture_exact(got) == wanted;
}

void check_captures(const Finding& finding, const Example& example, const Signature& rule, std::vector<Error>& out) {
  for (const auto& [name, wanted] : example.expect) {
    const auto at = std::find_if(finding.captures.begin(), finding.captures.end(), [&, &wanted_name = name](const auto& pair) { return pair.first == wanted_name; });
    if (at == finding.captures.end())
      out.push_back(Error(ErrorCode::conflict, rule_name(rule) + ": the example gives no capture '" + name + "'").at(example.place).because("expected " + wanted));
    else if (!same_value(at->second, wanted))
      out.push_back(Error(ErrorCode::conflict, rule_name(rule) + ": the capture '" + name + "' is '" + capture_exact(at->second) + "'").at(example.place).because("expected '" + wanted + "'"));
  }
}

// A group that took part in the match, but whose text is no value of its type: the capture would stay empty without a word.
void check_types(const std::vector<LineTrial>& lines, std::uint32_t index, const Signature& rule, const Example& example, std::vector<Error>& out) {
  for (const LineTrial& line : lines)
    for (std::size_t i = 0; i < line.rules.size(); ++i) {
      if (line.rules[i] != index) continue;
      for (const auto& [at, text] : line.attempts[i].groups) {
        const Capture& capture = rule.captures[at];
        if (parsers::trim(text).empty() || read_capture(capture.type, text)) continue;
        out.push_back(Error(ErrorCode::conflict, rule_name(rule) + ": the capture '" + capture.name + "' reads nothing from the example")
                          .at(example.place)
                          .because("'" + text + "' is no value of its type, " + std::string(capture_type_name(capture.type)))
                          .help("give it another type in 'captures', or a narrower group"));
      }
    }
}

}  // namespace

std::vector<Error> check_examples(const SignatureSet& set, TrialBudget& budget) {
  std::vector<Error> out;
  for (std::uint32_t i = 0; i < set.signatures().size(); ++i) {
    const Signature& rule = set.signatures()[i];
    // What a fault elsewhere in the rule may have caused is not told.
    const bool may_fail = rule.has_read("match"), may_fire = rule.has_read("unless") && rule.has_read("within");
    for (const Example& example : rule.examples) {
      const std::vector<LineTrial> lines = try_text(set, example.text, &budget);
      if (budget.used_up()) return out;
      if (const Finding* finding = fired(lines, i, rule.id)) {
        if (!rule.has_read("captures") || !rule.has_read("id")) continue;
        check_captures(*finding, example, rule, out);
        check_types(lines, i, rule, example, out);
      } else if (Silence silence = silence_of(lines, i); may_fail && (silence.step != Silence::Step::silenced || rule.has_read("role"))) {
        out.push_back(Error(ErrorCode::conflict, rule_name(rule) + " does not fire on its example").at(example.place).because(std::move(silence.reason)));
      }
    }
    if (!may_fire) continue;
    for (const Example& example : rule.counter_examples) {
      const bool fires = fired(try_text(set, example.text, &budget), i, rule.id);
      if (budget.used_up()) return out;
      if (fires)
        out.push_back(Error(ErrorCode::conflict, rule_name(rule) + " fires on its counter-example").at(example.place).help("add an 'unless', or make the pattern stricter"));
    }
  }
  return out;
}

}  // namespace triage::signatures
