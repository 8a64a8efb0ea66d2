// One rule tried on one record, with the reason of the answer. For explanations and examples; Matcher is the fast way.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parsers/records/record.hpp"
#include "signatures/match/match.hpp"
#include "signatures/match/matcher.hpp"

namespace triage::signatures {

struct Attempt {
  enum class End { matched, no_pattern, unless, within };
  End end = End::no_pattern;
  std::string detail;  // the pattern that matched or silenced, or the condition that does not hold
  std::vector<std::pair<std::size_t, std::string>> groups;   // of a match: index in Signature::captures, and the text, before it is read
};

Attempt try_rule(const SignatureSet& set, std::uint32_t rule, const parsers::Record& record, Context context);

// A text of one line or several, as intake would see it.
struct LineTrial {
  std::string text;                    // the line
  std::string message;                 // without prefixes
  std::vector<std::uint32_t> rules;    // whose literal stands in it
  std::vector<std::string> literals;   // that stand in it
  Context context;
  std::vector<Attempt> attempts;       // one for each of `rules`
  std::vector<Finding> findings;
};
// All lines with or without literals, in order.
std::vector<LineTrial> try_text(const SignatureSet& set, std::string_view text);

}  // namespace triage::signatures
