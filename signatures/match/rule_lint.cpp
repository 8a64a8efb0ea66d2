#include "signatures/match/rule_lint.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "parsers/base/error_text.hpp"
#include "parsers/base/text.hpp"
#include "signatures/match/background.hpp"
#include "signatures/match/blame.hpp"
#include "signatures/match/capture.hpp"
#include "signatures/match/literal.hpp"
#include "signatures/match/rule_reader.hpp"

namespace triage::signatures {
namespace {

using parsers::Error;
using parsers::ErrorCode;

// Families of kinds and, where the family is closed, its members (first part after the family).
struct Family {
  std::string_view name;
  std::vector<std::string_view> members;  // empty: any
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"gpu", {"oom", "xid", "sxid", "fallen_off_bus", "init_failed", "nvlink"}},
      {"triton", {"shared_memory"}},
      {"jax", {"oom"}},
      {"tf", {"oom"}},
      {"host", {"oom", "shm", "alloc", "pinned"}},
      {"nccl", {"timeout", "heartbeat", "remote", "system", "net", "desync", "usage", "internal"}},
      {"dist", {"store", "rendezvous", "gloo_timeout", "peer_closed"}},
      {"cuda", {"illegal_access", "illegal_instruction", "device_assert", "misaligned", "launch_failure", "ecc", "init", "no_kernel_image"}},
      {"proc", {"sigsegv", "sigabrt", "sigbus", "sigfpe", "sigill", "sigkill", "sigterm", "sigint", "sighup", "exit"}},
      {"sched", {"time_limit", "node_fail", "preempted", "cancelled", "evicted", "requeued", "launch"}},
      {"io", {"enospc", "emfile", "stale", "eio"}},
      {"ckpt", {"corrupt", "missing", "mismatch"}},
      {"num", {"nan", "spike"}},
      {"data", {}},
      {"config", {}},
      {"env", {"import", "version", "compile"}},
      {"net", {"hub"}},
      {"user", {"exception"}},
  };
  return all;
}

constexpr std::array<std::string_view, 10> kOomKinds = {"capacity", "fragmentation", "other_process", "limit", "driver", "nccl", "cublas", "cudnn", "cudagraph", "leak"};

bool name_part(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return (c >= 'a' && c <= 'z') || parsers::is_digit(c) || c == '_'; });
}

bool id_form(std::string_view id) {
  const std::vector<std::string_view> parts = parsers::split(id, '.');
  return parts.size() >= 2 && std::all_of(parts.begin(), parts.end(), name_part);
}

// Empty: a kind of the table. Roles that are no faults (advice, progress, fact) may have any dotted name, or none.
std::string kind_fault(const Signature& rule) {
  const std::vector<std::string_view> parts = parsers::split(rule.kind, '.');
  for (const std::string_view part : parts) {
    const bool hole = part.starts_with('{') && part.ends_with('}');
    if (!hole && !name_part(part)) return "a kind is dotted and has a-z, 0-9 and _ only";
  }
  if (rule.role == Role::advice || rule.role == Role::progress || rule.role == Role::fact || rule.kind == "none") return {};
  const auto family = std::find_if(families().begin(), families().end(), [&](const Family& f) { return f.name == parts.front(); });
  if (family == families().end()) return "there is no family of kinds '" + std::string(parts.front()) + "'";
  if (parts.size() < 2) return "a kind has a family and a member";
  const bool known = family->members.empty() || parts[1].starts_with('{') || std::find(family->members.begin(), family->members.end(), parts[1]) != family->members.end();
  if (!known) return "the family '" + std::string(parts.front()) + "' has no member '" + std::string(parts[1]) + "'";
  if (parts[0] == "gpu" && parts[1] == "oom" && parts.size() > 2 && !parts[2].starts_with('{') && std::find(kOomKinds.begin(), kOomKinds.end(), parts[2]) == kOomKinds.end())
    return "gpu.oom has no member '" + std::string(parts[2]) + "'";
  return {};
}

// `.*` at the head of a pattern makes every start a candidate and never changes what matches.
bool unbounded_head(std::string_view pattern) {
  while (parsers::consume(pattern, "^") || parsers::consume(pattern, "(?i)") || parsers::consume(pattern, "(?s)")) {
  }
  return pattern.starts_with(".*") || pattern.starts_with(".+") || pattern.starts_with("(.*") || pattern.starts_with("(?:.*");
}

class Linter {
 public:
  Linter(const SignatureSet& set, TrialBudget& budget, bool complete) : set_(set), rules_(set.signatures()), budget_(budget), complete_(complete) {}

  std::vector<Error> run() {
    for (const Signature& rule : rules_)
      if (rule.has_read("id")) by_id_.emplace(rule.id, &rule);
    for (const Signature& rule : rules_) one(rule);
    twins();
    shadows();
    tell_blamed();
    parsers::sort_by_place(out_);
    return std::move(out_);
  }

 private:
  void fault(const Signature& rule, const std::string& what, std::string help, std::string reason = "", ErrorCode code = ErrorCode::conflict) {
    out_.push_back(Error(code, rule_name(rule) + ": " + what).at(rule.place).because(std::move(reason)).help(std::move(help)));
  }
  void grave(const Signature& rule, const std::string& what, std::string help, std::string reason = "") {
    fault(rule, what, std::move(help), std::move(reason), ErrorCode::syntax);
  }

  // What was not read is not judged: its fault is told.
  void one(const Signature& rule) {
    const auto lacks = [&](std::string_view key, bool empty) { return empty && rule.has_read(key); };
    if (rule.has_read("id") && !id_form(rule.id)) grave(rule, "the id is not of the form family.name", "lower case a-z, 0-9 and _, at least one dot");
    if (const std::string reason = rule.has_read("kind") ? kind_fault(rule) : ""; !reason.empty())
      grave(rule, "the kind '" + rule.kind + "' is not known", "the kinds stand in docs/signatures.md", reason);
    literals(rule);
    for (const auto& [key, text] : {std::pair<std::string_view, const std::string&>{"kind", rule.kind}, {"summary", rule.summary}, {"help", rule.help}})
      if (rule.has_read(key) && has_stray_brace(text)) fault(rule, "the " + std::string(key) + " has a brace that names no capture", "write {name}, without blanks", text);
    for (const std::string& pattern : rule.match)
      if (unbounded_head(pattern)) fault(rule, "a pattern starts with '.*'", "leave it out: patterns match anywhere in the message", pattern);
    if (lacks("examples", rule.examples.empty())) fault(rule, "there is no example", "add a real line to 'examples'");
    if (lacks("counter_examples", rule.counter_examples.empty())) fault(rule, "there is no counter-example", "add a line that looks alike but must not fire to 'counter_examples'");
    if (lacks("sources", rule.sources.empty())) fault(rule, "there is no source", "name the program and file that print the text in 'sources'");
    if (!rule.ends.empty() && rule.has_read("role") && rule.role != Role::progress) grave(rule, "'ends' stands in a rule that is no progress", "give it the role progress");
    for (const std::string& id : rule.ends)
      if (complete_ && !rule_of(id)) grave(rule, "it ends '" + id + "', which is no rule", "name the id of a rule");
    if (rule.has_read("role") && rule.role == Role::root && lacks("fixes", rule.fixes.empty()) && lacks("help", rule.help.empty()))
      fault(rule, "a root has neither fixes nor help", "say what to change or to check");
  }

  void literals(const Signature& rule) {
    if (!rule.has_read("match") || !rule.has_read("literals")) return;
    const std::optional<std::vector<Literal>> all = rule_literals(rule);
    const bool excused = !rule.no_literal.empty() || !rule.has_read("no_literal");
    if (!all && !excused) return fault(rule, "no literal stands in every match", "make the pattern more specific, write 'literals', or say why not in 'no_literal'");
    if (!all || excused) return;
    for (const Literal& literal : *all) {
      if (literal.text.size() < kUsableLiteral) fault(rule, "the literal '" + literal.text + "' is too short", "at least 4 bytes, or say why not in 'no_literal'");
      if (rule.role != Role::advice && rule.role != Role::progress && rule.role != Role::fact && background_count(literal.text) > 0)
        fault(rule, "the literal '" + literal.text + "' stands in healthy logs", "choose a rarer one in 'literals', make the pattern more specific, or say in 'no_literal' why not");
    }
  }

  // Whether what it fires on, and what that means, is as it was written.
  static bool fires_as_written(const Signature& rule) {
    return std::all_of(kFiring.begin(), kFiring.end(), [&](const std::string_view key) { return rule.has_read(key); });
  }

  // One line, one cause: two roots of different kinds on the same example leave the answer to chance, unless one of the kinds only says
  // less. An example stands for what its rule means, so the other rule is the one to guard.
  void overlaps(const Signature& rule, const std::vector<LineTrial>& lines, std::set<std::string>& told) {
    if (rule.role != Role::root) return;
    for (const LineTrial& line : lines) {
      const auto own = std::find_if(line.findings.begin(), line.findings.end(), [&](const Finding& f) { return f.rule == rule.id; });
      if (own == line.findings.end()) continue;
      for (const Finding& other : line.findings)
        if (other.role == Role::root && other.rule != rule.id && !related(own->kind, other.kind) && counts(other.rule) && told.insert(other.rule).second &&
            !blamed_on_user(rule, rule_of(other.rule), line.text))
          fault(rule, "its example also fires '" + other.rule + "' of kind '" + other.kind + "'", "guard one of the two with 'unless', or make it stricter", line.text);
    }
  }

  // Null if there is none.
  const Signature* rule_of(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  bool counts(const std::string& id) const {
    const Signature* const rule = rule_of(id);
    return rule && fires_as_written(*rule) && !twins_.contains(rule);
  }

  // A user's rule, often one over a shipped rule whose guards it left out, that fires on what a shipped rule is for: the fault is told at the
  // user's rule, since that is the one to change.
  bool blamed_on_user(const Signature& rule, const Signature* other, const std::string& line) {
    if (!is_shipped(rule) || !other || is_shipped(*other)) return false;
    add_blame(blamed_, *other, rule, line);
    return true;
  }

  void tell_blamed() {
    for (const auto& [rule, blame] : blamed_) {
      const std::string more = blame.more() > 0 ? " and on some of " + std::to_string(blame.more()) + " more" : "";
      fault(*rule, "it also fires on an example of the shipped rule '" + blame.first->id + "'" + more,
            "add an 'unless' (a rule that replaces a shipped one needs its guards, too), make the pattern stricter, or disable '" + blame.first->id + "'", blame.example);
    }
  }

  static bool related(const std::string& a, const std::string& b) {
    const std::string& shorter = a.size() < b.size() ? a : b;
    const std::string& longer = a.size() < b.size() ? b : a;
    return longer.starts_with(shorter) && (longer.size() == shorter.size() || longer[shorter.size()] == '.');
  }

  // Rules with the same patterns and conditions: which of them answers is left to chance. Told without a look at examples.
  void twins() {
    std::map<std::tuple<std::vector<std::string>, std::vector<std::string>, Within>, const Signature*> first;
    for (const Signature& rule : rules_) {
      if (!rule.has_read("id") || !fires_as_written(rule)) continue;
      const auto [at, fresh] = first.try_emplace({rule.match, rule.unless, rule.within}, &rule);
      if (fresh) continue;
      twins_.insert(&rule);
      fault(rule, "it has the patterns of '" + at->second->id + "'", "join the two rules, or make one of them stricter");
    }
  }

  // A rule is shadowed when each of its examples also fires another rule of the same kind and role: it adds nothing.
  void shadows() {
    for (const Signature& rule : rules_) {
      if (!rule.has_read("id") || !fires_as_written(rule) || twins_.contains(&rule)) continue;
      std::vector<std::string> others;
      std::set<std::string> told;
      bool first = true;
      for (const Example& example : rule.examples) {
        std::vector<std::string> here;
        const std::vector<LineTrial> lines = try_text(set_, example.text, &budget_);
        if (budget_.used_up()) return;
        overlaps(rule, lines, told);
        for (const LineTrial& line : lines)
          for (const Finding& finding : line.findings) here.push_back(finding.rule);
        if (first) others = here;
        std::erase_if(others, [&](const std::string& id) { return std::find(here.begin(), here.end(), id) == here.end(); });
        first = false;
      }
      for (const std::string& id : others) {
        const Signature* const other = rule_of(id);
        if (other && other->id != rule.id && counts(id) && other->kind == rule.kind && other->role == rule.role && !blamed_on_user(rule, other, rule.examples.front().text))
          fault(rule, "each of its examples also fires '" + id + "', of the same kind and role", "join the two rules, or make one of them stricter");
      }
    }
  }

  static constexpr std::array<std::string_view, 5> kFiring = {"match", "unless", "within", "role", "kind"};

  const SignatureSet& set_;
  std::span<const Signature> rules_;
  TrialBudget& budget_;
  bool complete_;
  Blames blamed_;
  std::set<const Signature*> twins_;   // of a rule before them
  std::map<std::string, const Signature*, std::less<>> by_id_;
  std::vector<Error> out_;
};

}  // namespace

std::vector<Error> lint(const SignatureSet& set, TrialBudget& budget, bool complete) { return Linter(set, budget, complete).run(); }

bool is_grave(const Error& fault) { return fault.code() == ErrorCode::syntax; }

}  // namespace triage::signatures
