#include "signatures/match/attempt.hpp"

#include <time.h>

#include <algorithm>
#include <map>

#include "parsers/base/text.hpp"
#include "parsers/records/prefix.hpp"
#include "signatures/match/compiled_rules.hpp"

namespace triage::signatures {
namespace {

constexpr int kYear = 2026;  // completes clocks without a year; no answer depends on it

std::string missing_condition(Within within, Context context) {
  if (within == Within::exception && !context.exception) return "the message is not the last line of an exception (within: exception)";
  if (within == Within::block && !context.block) return "the line does not stand in a block (within: block)";
  if (within == Within::kernel && !context.kernel) return "the line is not one of kernel, journal or scheduler (within: kernel)";
  return {};
}

// Advice rules too, also where they alone have a literal: it is asked about them.
void find_literals(const SignatureSet& set, LineTrial& trial) {
  const CompiledRules& compiled = set.compiled();
  trial.rules.assign(compiled.always().begin(), compiled.always().end());
  for (const LiteralIndex* index : {&compiled.loud(), &compiled.quiet()}) {
    LiteralScanner::Scratch scratch;
    std::vector<LiteralHit> hits;
    index->scanner->scan(trial.text, scratch, hits);
    for (const LiteralHit& hit : hits) {
      const std::vector<std::uint32_t>& rules = index->rules_of[hit.literal];
      trial.rules.insert(trial.rules.end(), rules.begin(), rules.end());
      std::string text = index->scanner->literals()[hit.literal].text;
      if (text.front() == '\n') text.erase(0, 1);   // the start of a line
      if (std::find(trial.literals.begin(), trial.literals.end(), text) == trial.literals.end()) trial.literals.push_back(std::move(text));
    }
  }
  trial.rules.insert(trial.rules.end(), compiled.always_advice().begin(), compiled.always_advice().end());
  std::sort(trial.rules.begin(), trial.rules.end());
  trial.rules.erase(std::unique(trial.rules.begin(), trial.rules.end()), trial.rules.end());
}

}  // namespace

Attempt try_rule(const SignatureSet& set, std::uint32_t index, const parsers::Record& record, Context context) {
  const Signature& rule = set.signatures()[index];
  const CompiledRule& compiled = set.compiled().rule(index);
  const re2::StringPiece message(record.message.data(), record.message.size());
  const auto matches = [&](const RE2& regex) { return RE2::PartialMatch(message, regex); };
  const auto match = std::find_if(compiled.match.begin(), compiled.match.end(), [&](const CompiledPattern& p) { return matches(*p.regex); });
  if (match == compiled.match.end()) return {Attempt::End::no_pattern, rule.match.size() == 1 ? "the pattern does not match: " + rule.match.front() : "none of the patterns matches", {}};
  if (std::string missing = missing_condition(rule.within, context); !missing.empty()) return {Attempt::End::within, std::move(missing), {}};
  const auto unless = std::find_if(compiled.unless.begin(), compiled.unless.end(), [&](const auto& regex) { return matches(*regex); });
  if (unless != compiled.unless.end()) return {Attempt::End::unless, "silenced by its own 'unless': " + (*unless)->pattern(), {}};
  Attempt out{Attempt::End::matched, match->regex->pattern(), {}};
  std::vector<re2::StringPiece> parts(static_cast<std::size_t>(match->wanted));
  match->regex->Match(message, 0, message.size(), RE2::UNANCHORED, parts.data(), match->wanted);
  for (const auto& [capture, number] : match->groups) {
    const re2::StringPiece& part = parts[static_cast<std::size_t>(number)];
    if (part.data() != nullptr) out.groups.emplace_back(capture, std::string(part.data(), part.size()));
  }
  return out;
}

TrialBudget::TrialBudget(const SignatureSet& set, std::chrono::nanoseconds limit) : set_(set), limit_(limit), start_(now()), steps_(set.signatures().size(), 0) {}

std::chrono::nanoseconds TrialBudget::now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool TrialBudget::take(std::uint32_t rule, std::size_t bytes) {
  steps_[rule] += (set_.compiled().rule(rule).instructions + 1) * (bytes + 1);
  constexpr std::uint64_t kLook = 256;   // the clock is a system call
  if (!used_up_ && ++taken_ % kLook == 0) used_up_ = now() - start_ > limit_;
  return !used_up_;
}

parsers::Error TrialBudget::fault() const {
  std::map<std::string_view, std::uint64_t> of_file;
  std::uint64_t all = 1;
  for (std::size_t i = 0; i < steps_.size(); ++i) of_file[set_.signatures()[i].place.file] += steps_[i], all += steps_[i];
  const auto most = std::max_element(of_file.begin(), of_file.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return parsers::Error(parsers::ErrorCode::limit, "not all examples were tried: that takes more than " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit_).count()) + " s")
      .because(most == of_file.end() ? "" : "the patterns of " + std::string(most->first) + " take " + std::to_string(most->second * 100 / all) + " % of it")
      .help("a pattern needs a literal that stands in few lines, and small repetition counts; an example needs the decisive lines only");
}

std::vector<LineTrial> try_text(const SignatureSet& set, std::string_view text, TrialBudget* budget) {
  // The set outlives the call; Matcher wants a shared owner.
  Matcher matcher(std::shared_ptr<const SignatureSet>(std::shared_ptr<const SignatureSet>(), &set));
  parsers::Peeler peeler(kYear);
  std::vector<LineTrial> out;
  if (text.ends_with('\n')) text.remove_suffix(1);
  parsers::Line line;
  for (std::string_view part : parsers::split(text, '\n')) {
    line.text = part.ends_with('\r') ? part.substr(0, part.size() - 1) : part;
    const parsers::Record record = peeler.peel(line);
    LineTrial& trial = out.emplace_back();
    trial.text = line.text;
    trial.message = record.message;
    trial.context = context_of(record);
    find_literals(set, trial);
    for (const std::uint32_t rule : trial.rules) {
      if (budget && !budget->take(rule, record.message.size())) return out;
      trial.attempts.push_back(try_rule(set, rule, record, trial.context));
    }
    matcher.match(record, trial.context, trial.rules, trial.findings);
    line.offset += part.size() + 1;
    ++line.number;
  }
  return out;
}

}  // namespace triage::signatures
