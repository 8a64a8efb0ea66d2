// Rule files (YAML, the form in signatures/rules/README.md) -> signatures. Reads the form only: what a pattern means is checked
// when a set is compiled (matcher.hpp), what a good rule needs by rule_lint.hpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/embedded_file.hpp"
#include "parsers/base/result.hpp"
#include "signatures/match/signature.hpp"

namespace triage::signatures {

// A view of a file's text; valid while it is read.
struct RuleFile {
  std::string name;  // that places carry
  std::string_view text;
};

struct ReadRules {
  std::vector<Signature> rules;        // all, also those with faults: Signature::unread says what of them is not to be judged
  std::vector<parsers::Error> faults;  // all of them, in order of the files, each with its place
  bool complete = true;                // false: there are more rules, in a file or an entry that could not be read at all
};

// Faults: syntax, unknown key (with the nearest one), wrong type, missing key, doubled id.
ReadRules read_rules(std::span<const RuleFile> files);

// The rules compiled into the program (signatures/rules/**/*.yaml), as files to read.
std::span<const parsers::EmbeddedFile> embedded_rules();
std::vector<RuleFile> embedded_rule_files();
// Is the rule one of them, and not a user's?
bool is_shipped(const Signature& rule);

// The shipped rules with the user's on top: a rule of the same id replaces the shipped one, `- id: x` with `disable: true` removes it.
// Disabling an id that is not there is a fault.
ReadRules override_rules(std::vector<Signature> shipped, std::span<const RuleFile> user);

}  // namespace triage::signatures
