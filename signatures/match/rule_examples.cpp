#include "signatures/match/rule_examples.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "parsers/base/text.hpp"
#include "parsers/events/event_reader.hpp"
#include "signatures/match/blame.hpp"
#include "signatures/match/capture.hpp"
#include "signatures/match/rule_reader.hpp"

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
  std::vector<std::string> by;   // silenced: the rules that fired instead
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
    out = {step, attempt.detail, {}};
    if (step == Step::no_pattern) out.reason += " (message: " + line.message + ")";
    if (step != Step::silenced) continue;
    for (const Finding& finding : line.findings) out.by.push_back(finding.rule);
    out.reason = "another rule silences it: " + (out.by.empty() ? std::string("unknown") : out.by.front());
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

// Of several lines: one example need not hold the whole block.
bool reads_blocks(const std::string& parser) {
  static const auto readers = parsers::make_event_readers();
  return std::any_of(readers.begin(), readers.end(), [&](const auto& reader) { return reader->name() == parser; });
}

// A user's rule that silences shipped ones hides failures: told at that rule.
class Silencers {
 public:
  explicit Silencers(const SignatureSet& set) {
    for (const Signature& rule : set.signatures())
      if (!is_shipped(rule)) users_.emplace(rule.id, &rule);
  }
  // False: none of those that fired is a user's.
  bool add(const Signature& silenced, const Silence& silence, const std::string& example) {
    for (const std::string& id : silence.by) {
      const auto user = users_.find(id);
      if (user == users_.end()) continue;
      add_blame(blamed_, *user->second, silenced, example);
      return true;
    }
    return false;
  }
  void tell(std::vector<Error>& out) const {
    for (const auto& [rule, blame] : blamed_)
      out.push_back(Error(ErrorCode::conflict, rule_name(*rule) + ": it silences an example of '" + blame.first->id + "'" +
                                                   (blame.more() > 0 ? " and some of " + std::to_string(blame.more()) + " more shipped rules" : ""))
                        .at(rule->place)
                        .because(blame.example)
                        .help("advice silences all rules of its line, handled the roots: make the pattern stricter, or disable what is not wanted"));
  }

 private:
  std::map<std::string, const Signature*, std::less<>> users_;
  Blames blamed_;
};

}  // namespace

std::vector<Error> check_examples(const SignatureSet& set, TrialBudget& budget) {
  std::vector<Error> out;
  Silencers silencers(set);
  for (std::uint32_t i = 0; i < set.signatures().size(); ++i) {
    const Signature& rule = set.signatures()[i];
    // What a fault elsewhere in the rule may have caused is not told.
    const bool may_fail = rule.has_read("match"), may_fire = rule.has_read("unless") && rule.has_read("within");
    bool fires = false, reads = false;
    for (const Example& example : rule.examples) {
      const std::vector<LineTrial> lines = try_text(set, example.text, &budget);
      if (budget.used_up()) return out;
      if (const Finding* finding = fired(lines, i, rule.id)) {
        fires = true;
        reads = reads || !std::holds_alternative<std::monostate>(finding->event);
        if (!rule.has_read("captures") || !rule.has_read("id")) continue;
        check_captures(*finding, example, rule, out);
        check_types(lines, i, rule, example, out);
      } else if (Silence silence = silence_of(lines, i); may_fail && (silence.step != Silence::Step::silenced || rule.has_read("role"))) {
        if (is_shipped(rule) && silencers.add(rule, silence, example.text)) continue;
        out.push_back(Error(ErrorCode::conflict, rule_name(rule) + " does not fire on its example").at(example.place).because(std::move(silence.reason)));
      }
    }
    if (fires && !reads && !rule.parser.empty() && !reads_blocks(rule.parser))
      out.push_back(Error(ErrorCode::conflict, rule_name(rule) + ": the parser '" + rule.parser + "' reads nothing from its examples").at(rule.place).help("name the parser of such lines, or none"));
    if (!may_fire) continue;
    for (const Example& example : rule.counter_examples) {
      const bool wrong = fired(try_text(set, example.text, &budget), i, rule.id);
      if (budget.used_up()) return out;
      if (wrong)
        out.push_back(Error(ErrorCode::conflict, rule_name(rule) + " fires on its counter-example").at(example.place).help("add an 'unless', or make the pattern stricter"));
    }
  }
  silencers.tell(out);
  return out;
}

}  // namespace triage::signatures
