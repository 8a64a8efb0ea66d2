// One rule tried on one record, with the reason of the answer. For explanations and examples; Matcher is the fast way.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/base/result.hpp"
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
// What trying the rules of a set on all their examples may cost: limits::kRuleTrialSeconds of this thread's processor time, so that a busy
// machine refuses no rules. The set must outlive it.
class TrialBudget {
 public:
  explicit TrialBudget(const SignatureSet& set, std::chrono::nanoseconds limit = std::chrono::seconds(parsers::limits::kRuleTrialSeconds));
  // To be called before a rule is tried on so many bytes. False: used up, and what is not yet tried must not be judged.
  bool take(std::uint32_t rule, std::size_t bytes);
  bool used_up() const { return used_up_; }
  // What to tell when it is used up; without a place, since it is nobody's alone.
  parsers::Error fault() const;

 private:
  static std::chrono::nanoseconds now();

  const SignatureSet& set_;
  std::chrono::nanoseconds limit_, start_;
  std::vector<std::uint64_t> steps_;   // of each rule, instructions times bytes: only to tell where the time went
  std::uint64_t taken_ = 0;
  bool used_up_ = false;
};

// All lines with or without literals, in order. Stops when the budget is used up.
std::vector<LineTrial> try_text(const SignatureSet& set, std::string_view text, TrialBudget* budget = nullptr);

}  // namespace triage::signatures
