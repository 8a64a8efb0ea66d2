#include "signatures/match/explain.hpp"

#include <algorithm>
#include <vector>

#include "signatures/match/attempt.hpp"
#include "signatures/match/capture.hpp"
#include "signatures/match/compiled_rules.hpp"

namespace triage::signatures {
namespace {

std::string captures_text(const Finding& finding) {
  std::string out;
  for (const auto& [name, value] : finding.captures) out += (out.empty() ? "" : ", ") + name + " = " + capture_text(value);
  return out;
}

void add_rule(std::string& out, const Signature& rule, const Attempt& attempt, const LineTrial& line) {
  const auto finding = std::find_if(line.findings.begin(), line.findings.end(), [&](const Finding& f) { return f.rule == rule.id; });
  const bool silenced = attempt.end == Attempt::End::matched && finding == line.findings.end();
  out += "  " + rule.id + " (" + std::string(role_name(rule.role)) + ", " + rule.kind + "): ";
  if (attempt.end != Attempt::End::matched) {
    out += "no: " + attempt.detail + "\n";
  } else if (silenced) {
    out += "no: it matches, but " + (line.findings.empty() ? std::string("another rule") : line.findings.front().rule) + " silences it on this line\n";
  } else {
    out += "yes: " + attempt.detail + "\n";
    if (const std::string captures = captures_text(*finding); !captures.empty()) out += "    captures: " + captures + "\n";
    if (finding->kind != rule.kind) out += "    kind: " + finding->kind + "\n";
  }
}

}  // namespace

std::string explain(const SignatureSet& set, std::string_view line) {
  std::string out;
  for (const LineTrial& trial : try_text(set, line)) {
    out += "line: " + trial.text + "\n";
    if (trial.message != trial.text) out += "message: " + trial.message + "\n";
    if (trial.literals.empty() && trial.findings.empty()) {
      out += "  no literal of any rule stands in it\n";
      continue;
    }
    for (const std::string& literal : trial.literals) out += "  literal: '" + literal + "'\n";
    const auto everywhere = set.compiled().always_advice();   // looked at on any line: told of only where they match
    for (std::size_t i = 0; i < trial.rules.size(); ++i) {
      const bool idle = trial.attempts[i].end == Attempt::End::no_pattern && std::find(everywhere.begin(), everywhere.end(), trial.rules[i]) != everywhere.end();
      if (!idle) add_rule(out, set.signatures()[trial.rules[i]], trial.attempts[i], trial);
    }
  }
  return out;
}

}  // namespace triage::signatures
