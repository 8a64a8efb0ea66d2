// What signatures compile to. Used inside signatures/match only (matcher, explain).
#pragma once

#include <re2/re2.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/literal_scanner.hpp"
#include "signatures/match/signature.hpp"

namespace triage::signatures {

// The options of every pattern: Latin-1 (bytes of any encoding), limits::kRegexMemoryBytes, no log lines.
RE2::Options pattern_options();

// A pattern and where each capture of the rule stands in it: (index in Signature::captures, group number).
struct CompiledPattern {
  std::unique_ptr<RE2> regex;
  std::vector<std::pair<std::size_t, int>> groups;
  int wanted = 0;   // submatches to ask for: 1 + the highest group; 0: none
};

struct CompiledRule {
  std::vector<CompiledPattern> match;
  std::vector<std::unique_ptr<RE2>> unless;
  std::uint64_t instructions = 0;   // of all its patterns: what a byte of text costs at most
};

// Literals and whose they are, by the literal's index.
struct LiteralIndex {
  std::unique_ptr<const LiteralScanner> scanner;
  std::vector<std::vector<std::uint32_t>> rules_of, extra_of;
};

class CompiledRules {
 public:
  // Appends all faults, and takes out of the signatures what has one (Signature::unread): what is left is compiled.
  CompiledRules(std::span<Signature> signatures, std::span<const std::string_view> extra, std::vector<parsers::Error>& faults);

  const CompiledRule& rule(std::uint32_t index) const { return rules_[index]; }
  // What the pass over all bytes looks for: literals of all rules but those of advice, and the extra literals.
  const LiteralIndex& loud() const { return loud_; }
  // Literals of advice rules: looked for only in lines in which a literal of another rule stands.
  const LiteralIndex& quiet() const { return quiet_; }
  // Rules without a literal: tried on every candidate.
  std::span<const std::uint32_t> always() const { return always_; }
  // Advice rules without a literal: tried on every candidate that another rule looks at.
  std::span<const std::uint32_t> always_advice() const { return always_advice_; }
  std::size_t extra_count() const { return extra_count_; }

 private:
  std::vector<CompiledRule> rules_;
  LiteralIndex loud_, quiet_;
  std::vector<std::uint32_t> always_, always_advice_;
  std::size_t extra_count_ = 0;
};

}  // namespace triage::signatures
