#include "signatures/match/compiled_rules.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "parsers/base/limits.hpp"
#include "parsers/events/event_reader.hpp"
#include "signatures/match/capture.hpp"

namespace triage::signatures {
namespace {

using parsers::Error;
using parsers::ErrorCode;

// Two bytes and more of one line; '\n' may stand in front, for the start of a line, where GramFilter looks for it.
bool can_be_looked_for(std::string_view literal) {
  if (literal.size() < LiteralScanner::kLeast) return false;
  const std::size_t end = literal.find_last_of('\n');
  return end == std::string_view::npos || (end == 0 && literal.size() >= GramFilter::kLeast);
}

Error literal_fault(const Signature& rule, const std::string& literal) {
  return Error(ErrorCode::syntax, rule_name(rule) + ": the literal '" + literal + "' cannot be looked for").at(rule.place).help("two bytes at least, all on one line");
}

// What has a fault is told and taken out of the rule (Signature::unread); the rest is compiled.
class RuleCompiler {
 public:
  RuleCompiler(Signature& rule, std::vector<Error>& faults) : rule_(rule), faults_(faults) {}

  CompiledRule compile() {
    CompiledRule out;
    const bool captures_known = rule_.has_read("captures");
    take_bad("match", rule_.match, [&](const std::string& pattern) {
      std::unique_ptr<RE2> regex = regular(pattern);
      if (!regex) return false;
      CompiledPattern compiled;
      for (const auto& [name, number] : regex->NamedCapturingGroups()) {
        groups_.insert(name);
        const auto at = std::find_if(rule_.captures.begin(), rule_.captures.end(), [&, &wanted = name](const Capture& c) { return c.name == wanted; });
        if (at != rule_.captures.end())
          compiled.groups.emplace_back(static_cast<std::size_t>(at - rule_.captures.begin()), number);
        else if (captures_known)
          fault("captures", ErrorCode::syntax, "the group '" + name + "' has no capture", "name it in 'captures', or write (?:...)");
      }
      std::sort(compiled.groups.begin(), compiled.groups.end());
      for (const auto& [capture, number] : compiled.groups) compiled.wanted = std::max(compiled.wanted, number + 1);
      out.instructions += instructions(*regex);
      compiled.regex = std::move(regex);
      out.match.push_back(std::move(compiled));
      return true;
    });
    take_bad("unless", rule_.unless, [&](const std::string& pattern) {
      std::unique_ptr<RE2> regex = regular(pattern);
      if (!regex) return false;
      out.instructions += instructions(*regex);
      out.unless.push_back(std::move(regex));
      return true;
    });
    if (rule_.has_read("match") && captures_known) {
      for (const Capture& capture : rule_.captures)
        if (!groups_.contains(capture.name)) fault("captures", ErrorCode::syntax, "the capture '" + capture.name + "' has no group", "write (?P<" + capture.name + ">...) in 'match'");
    }
    if (captures_known) {
      check_template("kind", rule_.kind);
      check_template("summary", rule_.summary);
      check_template("help", rule_.help);
    }
    check_literals();
    check_parser();
    return out;
  }

 private:
  void fault(std::string_view key, ErrorCode code, std::string what, std::string help, std::string reason = "") {
    set_unread(rule_, key);
    faults_.push_back(Error(code, rule_name(rule_) + ": " + what).at(rule_.place).because(std::move(reason)).help(std::move(help)));
  }

  // Leaves those texts of the key that can be used.
  template <class Use>
  void take_bad(std::string_view key, std::vector<std::string>& texts, Use&& use) {
    if (std::erase_if(texts, [&](const std::string& text) { return !use(text); }) > 0) set_unread(rule_, key);
  }

  static std::uint64_t instructions(const RE2& regex) { return static_cast<std::uint64_t>(regex.ProgramSize()); }

  std::unique_ptr<RE2> regular(const std::string& pattern) {
    auto regex = std::make_unique<RE2>(pattern, pattern_options());
    if (regex->ok() && regex->ProgramSize() <= parsers::limits::kRegexInstructions && regex->NumberOfCapturingGroups() <= parsers::limits::kRegexGroups) return regex;
    if (regex->ok() && regex->ProgramSize() > parsers::limits::kRegexInstructions)
      fault("", ErrorCode::limit, "the pattern compiles to " + std::to_string(regex->ProgramSize()) + " instructions: " + pattern, "use smaller repetition counts, or several patterns",
            "the limit is " + std::to_string(parsers::limits::kRegexInstructions));
    else if (regex->ok())
      fault("", ErrorCode::limit, "the pattern has " + std::to_string(regex->NumberOfCapturingGroups()) + " groups: " + pattern, "write (?:...) where the text is not wanted",
            "the limit is " + std::to_string(parsers::limits::kRegexGroups));
    else if (regex->error_code() == RE2::ErrorPatternTooLarge)
      fault("", ErrorCode::limit, "the pattern needs more memory than " + std::to_string(parsers::limits::kRegexMemoryBytes) + " bytes: " + pattern, "use smaller repetition counts", regex->error());
    else
      fault("", ErrorCode::syntax, "the pattern is not valid: " + pattern, "see the syntax of RE2; it has no look-around and no back-references", regex->error());
    return nullptr;
  }

  void check_template(std::string_view key, const std::string& text) {
    const std::vector<std::string_view> names = template_names(text);
    if (names.size() > parsers::limits::kTemplateNames)
      return fault(key, ErrorCode::limit, "the " + std::string(key) + " names " + std::to_string(names.size()) + " captures", "name those that a reader needs",
                   "the limit is " + std::to_string(parsers::limits::kTemplateNames));
    for (const std::string_view name : std::set(names.begin(), names.end())) {
      const bool known = groups_.contains(name) || std::any_of(rule_.captures.begin(), rule_.captures.end(), [&](const Capture& c) { return c.name == name; });
      if (!known) fault(key, ErrorCode::syntax, "the text '" + text + "' names no capture with {" + std::string(name) + "}", "name a capture, or leave the braces out");
    }
  }

  // Without one of them lines that the rule is for would be missed, so they go together.
  void check_literals() {
    const std::size_t before = faults_.size();
    for (const std::string& literal : rule_.literals)
      if (!can_be_looked_for(literal)) faults_.push_back(literal_fault(rule_, literal));
    if (faults_.size() == before) return;
    set_unread(rule_, "literals");
    rule_.literals.clear();
  }

  void check_parser() {
    if (rule_.parser.empty()) return;
    const std::span<const std::string_view> known = parsers::event_parser_names();
    if (std::find(known.begin(), known.end(), rule_.parser) != known.end()) return;
    std::string all;
    for (const std::string_view name : known) all += (all.empty() ? "known: " : ", ") + std::string(name);
    fault("parser", ErrorCode::not_found, "there is no parser '" + rule_.parser + "'", std::move(all));
    rule_.parser.clear();
  }

  Signature& rule_;
  std::vector<Error>& faults_;
  std::set<std::string, std::less<>> groups_;   // of the patterns that are valid
};

class IndexBuilder {
 public:
  // The lists of rules and of extra literals that this literal stands for.
  std::pair<std::vector<std::uint32_t>&, std::vector<std::uint32_t>&> add(const Literal& literal) {
    const auto [at, fresh] = numbers_.emplace(literal, static_cast<std::uint32_t>(literals_.size()));
    if (fresh) {
      literals_.push_back(literal);
      index_.rules_of.emplace_back();
      index_.extra_of.emplace_back();
    }
    return {index_.rules_of[at->second], index_.extra_of[at->second]};
  }

  LiteralIndex finish() {
    index_.scanner = std::make_unique<const LiteralScanner>(std::move(literals_));
    return std::move(index_);
  }

 private:
  std::map<Literal, std::uint32_t> numbers_;
  std::vector<Literal> literals_;
  LiteralIndex index_;
};

}  // namespace

RE2::Options pattern_options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_max_mem(parsers::limits::kRegexMemoryBytes);
  options.set_log_errors(false);
  return options;
}

CompiledRules::CompiledRules(std::span<Signature> signatures, std::span<const std::string_view> extra, std::vector<Error>& faults) : extra_count_(extra.size()) {
  std::set<std::string_view> ids;
  IndexBuilder loud, quiet;
  for (std::uint32_t i = 0; i < signatures.size(); ++i) {
    Signature& rule = signatures[i];
    if (rule.has_read("id") && !ids.insert(rule.id).second) faults.push_back(Error(ErrorCode::conflict, "the id '" + rule.id + "' stands twice").at(rule.place));
    rules_.push_back(RuleCompiler(rule, faults).compile());
    const std::optional<std::vector<Literal>> own = rule_literals(rule);
    if (!own) {
      (rule.role == Role::advice ? always_advice_ : always_).push_back(i);
      continue;
    }
    for (const Literal& literal : *own) {
      if (!can_be_looked_for(literal.text))
        faults.push_back(literal_fault(rule, literal.text));
      else
        (rule.role == Role::advice ? quiet : loud).add(literal).first.push_back(i);
    }
  }
  for (std::uint32_t i = 0; i < extra.size(); ++i) {
    if (!can_be_looked_for(extra[i]))
      faults.push_back(Error(ErrorCode::internal, "the literal '" + std::string(extra[i]) + "' of a reader cannot be looked for"));
    else
      loud.add({std::string(extra[i]), false}).second.push_back(i);
  }
  loud_ = loud.finish();
  quiet_ = quiet.finish();
}

}  // namespace triage::signatures
