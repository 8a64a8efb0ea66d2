#include "signatures/plan/rank.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "parsers/base/quantity.hpp"
#include "signatures/plan/candidate.hpp"
#include "signatures/plan/combine.hpp"
#include "signatures/plan/facts.hpp"
#include "signatures/plan/forecast.hpp"
#include "signatures/plan/guidance.hpp"
#include "signatures/plan/replayed.hpp"
#include "signatures/plan/saving.hpp"

namespace triage::signatures {

using parsers::Key;

namespace {

constexpr std::size_t kLeast = 3;       // below that, a family may give more
constexpr std::size_t kSettings = 4;    // forms of one fix, when the program is not known
constexpr int kUsualWeight = 40;        // of a fix without an order for this kind and phase
constexpr int kUnknownCost = 5;         // taken off for a precondition that could not be checked
constexpr int kLeastWeight = 10;        // below that a fix is not worth a line
constexpr int kTight = 8;               // taken off a fix that leaves less than 1 / kTightDivider of the device
constexpr std::int64_t kTightDivider = 20;
constexpr int kSureBonus = 6;           // for a fix that fits even at the upper end of its range
constexpr std::int64_t kLeastSaving = std::int64_t{64} << 20;  // bytes; below that a change is not worth a line

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// kind "gpu.oom.capacity" stands under "gpu.oom.capacity", "gpu.oom" and "gpu".
bool under(std::string_view kind, std::string_view prefix) {
  return kind.starts_with(prefix) &&
         (kind.size() == prefix.size() || kind[prefix.size()] == '.');
}

// Programs that take the settings of another one; in the order in which they are tried.
std::vector<std::string_view> forms_of(std::string_view framework) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kAlso = {{
      {"nemo", "megatron-bridge"}, {"trl", "huggingface"}, {"trl", "pytorch"},
      {"accelerate", "huggingface"}, {"accelerate", "pytorch"}, {"peft", "huggingface"},
      {"axolotl", "huggingface"}, {"llama-factory", "huggingface"}, {"unsloth", "trl"},
      {"unsloth", "huggingface"}, {"huggingface", "pytorch"}, {"transformers", "huggingface"},
      {"fsdp", "pytorch"}, {"lightning", "pytorch"}, {"deepspeed", "pytorch"},
      {"maxtext", "jax"}, {"megatron", "megatron-lm"}, {"megatron-core", "megatron-lm"},
      {"torchtitan", "torchtitan"}, {"torchtune", "pytorch"}}};
  std::vector<std::string_view> forms = {framework};
  for (const auto& [from, to] : kAlso)
    if (from == framework && from != to) forms.push_back(to);
  return forms;
}

// What ran, most specific first; with what the kind itself says where the log names no program.
std::vector<std::string> frameworks_of(const Diagnosis& diagnosis) {
  std::vector<std::string> names;
  const auto add = [&names](std::string_view name) {
    if (!name.empty() && !contains(names, name)) names.emplace_back(name);
  };
  for (const std::string& name : diagnosis.frameworks) add(name);
  if (const auto name = diagnosis.config.text(Key::framework)) add(*name);
  for (const std::string& name : diagnosis.config.frameworks()) add(name);
  for (const Finding& finding : diagnosis.findings)
    if (finding.role == Role::root && finding.rule.starts_with("cupy.")) add("cupy");
  if (names.empty() && under(diagnosis.kind, "jax")) add("jax");
  if (names.empty() && under(diagnosis.kind, "tf")) add("tensorflow");
  // A program without forms of its own is read as plain PyTorch.
  std::vector<std::string> known;
  for (const std::string& name : names) {
    const auto forms = forms_of(name);
    if (std::any_of(forms.begin(), forms.end(), is_framework_name)) known.push_back(name);
  }
  if (known.empty() && !names.empty()) known.emplace_back("pytorch");
  return known;
}

// A kind that nothing refined stands for its most frequent form.
std::string refined(const std::string& kind) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kUsual = {
      {{"gpu.oom", "gpu.oom.capacity"}, {"jax.oom", "jax.oom.runtime"}, {"host.oom", "host.oom.cgroup"}}};
  for (const auto& [general, usual] : kUsual)
    if (kind == general) return std::string(usual);
  return kind;
}

class Planner {
 public:
  Planner(const Diagnosis& diagnosis, const std::vector<CatalogueFix>& catalogue, PlanLimits limits, std::shared_ptr<const Forecast> forecast)
      : diagnosis_(diagnosis), catalogue_(catalogue), limits_(limits), facts_(facts_of(diagnosis)),
        frameworks_(frameworks_of(diagnosis)), config_(diagnosis.config),
        kind_(refined(diagnosis.kind)) {
    facts_["kind"] = kind_;
    facts_["frameworks"] = frameworks_;   // an empty list: none is named
    if (!frameworks_.empty() && !config_.has(Key::framework)) config_.set(Key::framework, frameworks_.front(), "what the log shows");
    if (!under(kind_, "gpu.oom")) return;
    forecast_ = std::move(forecast);
    if (!forecast_)
      if (parsers::Result<Forecast> made = forecast_of(diagnosis, config_); made.ok()) forecast_ = std::make_shared<const Forecast>(std::move(*made));
    if (forecast_) config_ = forecast_->config();
    if (kind_ == "gpu.oom.fragmentation" && too_small_anyway()) {
      kind_ = "gpu.oom.capacity";
      facts_["kind"] = kind_;
      pieces_are_not_all_ = true;
    }
  }

  Plan run() {
    Plan plan;
    plan.forecast = forecast_;
    if (kind_.empty() || kind_ == "none") return plan;
    if (pieces_are_not_all_)
      plan.verdict = "whole pieces alone would not be enough: the run needs " + parsers::bytes_text(needed_without_pieces(diagnosis_, forecast_.get())) + " of " +
                     parsers::bytes_text(diagnosis_.ledger->capacity.value_or(parsers::Bytes()));
    std::vector<Candidate> candidates;
    for (const CatalogueFix& entry : catalogue_) {
      Candidate candidate;
      candidate.entry = &entry;
      if (!counts(candidate) || !possible(candidate) || !applied(candidate, scope()) || !foretold(candidate)) continue;
      candidate.weight = replay_weight(diagnosis_, entry.id, candidate.weight);
      candidates.push_back(std::move(candidate));
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.reach != b.reach ? a.reach < b.reach : a.weight > b.weight;
    });
    if (forecast_ && std::none_of(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.reach == Reach::enough; }))
      combine(candidates, plan);
    for (const Candidate* candidate : pick(candidates)) {
      if (plan.fixes.size() == limits_.fixes) break;
      plan.fixes.push_back(made(*candidate));
    }
    for (std::size_t i = 0; i < plan.fixes.size(); ++i) plan.fixes[i].rank = static_cast<int>(i) + 1;
    return plan;
  }

 private:
  // Does the fix count for this kind and phase, or did the rule name it? Sets the weight.
  bool counts(Candidate& candidate) const {
    const CatalogueFix& entry = *candidate.entry;
    const bool memory = under(kind_, "gpu.oom");
    const bool by_id = contains(diagnosis_.fix_hints, entry.id);
    const bool by_family = contains(diagnosis_.fix_hints, entry.family);
    const bool kind_fits = std::any_of(entry.kinds.begin(), entry.kinds.end(),
                                       [&](const std::string& k) { return under(kind_, k); });
    const auto has_phase = [&entry](Phase phase) {
      return std::find(entry.phases.begin(), entry.phases.end(), phase) != entry.phases.end();
    };
    // An unknown phase is most often inside the training step: what counts there counts then.
    const bool phase_fits =
        entry.phases.empty() || has_phase(diagnosis_.phase) || (by_id && !memory) ||
        (diagnosis_.phase == Phase::unknown && has_phase(Phase::forward));
    if (!phase_fits) return false;
    if (entry.family == "recompute" && request_too_large()) return false;
    // A family says where to look; which of its fixes are meant, the kind says. The rule of a device memory message names its
    // fixes before the ledger refined the kind: there the refined kind decides alone.
    if (!kind_fits && (!by_id || (memory && !entry.kinds.empty()))) return false;
    candidate.weight = kind_fits || entry.kinds.empty() ? weight(entry) : kUsualWeight;
    if (by_id) candidate.weight += memory ? 6 : 35;
    else if (by_family) candidate.weight += memory ? 2 : 10;
    for (const Boost& boost : entry.boosts)
      if (boost.when.truth(scope()) == Truth::yes) candidate.weight += boost.add;
    for (const Guidance* guidance : guidance_of(entry.id, scope())) candidate.weight += guidance->add;
    candidate.weight -= 2 * entry.disruption;
    return true;
  }

  // Even in one piece the memory does not suffice.
  bool too_small_anyway() const {
    if (!diagnosis_.ledger || !diagnosis_.ledger->capacity) return false;
    return needed_without_pieces(diagnosis_, forecast_.get()) > *diagnosis_.ledger->capacity;
  }

  // In the loss one request (the logits) can be so large that freeing kept activations does not make room for it.
  bool request_too_large() const {
    if (diagnosis_.phase != Phase::loss || !diagnosis_.ledger) return false;
    const Ledger& ledger = *diagnosis_.ledger;
    if (!ledger.tried || !ledger.capacity) return false;
    const parsers::Bytes free = ledger.free.value_or(parsers::Bytes());
    return *ledger.tried > free + parsers::Bytes(ledger.capacity->count() / 5);
  }

  int weight(const CatalogueFix& entry) const {
    const std::string_view phase = phase_name(diagnosis_.phase);
    std::size_t longest = 0;
    int by_kind = -1, by_phase = -1, in_step = -1, other = kUsualWeight;
    for (const auto& [name, value] : entry.order) {
      if (name == "any") other = value;
      else if (name == phase) by_phase = value;
      else if (name == "forward") in_step = value;
      else if (under(kind_, name) && name.size() >= longest) {
        longest = name.size();
        by_kind = value;
      }
    }
    if (by_kind >= 0) return by_kind;
    if (by_phase >= 0) return by_phase;
    if (diagnosis_.phase == Phase::unknown && in_step >= 0) return in_step * 9 / 10;
    return other;
  }

  // The names that a condition lacks: "micro_batch, world". Empty: none that the user could look up.
  std::string lacking(const Expression& condition) const {
    std::string names;
    for (const std::string& name : condition.missing(scope()))
      if (name != "framework" && !is_fact_name(name)) names += (names.empty() ? "" : ", ") + name;
    return names;
  }

  bool possible(Candidate& candidate) const {
    const auto& excludes = candidate.entry->excludes;
    for (const Expression& exclude : excludes)
      if (exclude.truth(scope()) == Truth::yes) return false;
    for (const Requirement& need : candidate.entry->needs) {
      const Truth truth = need.condition.truth(scope());
      if (truth == Truth::no) return false;
      if (truth == Truth::yes) continue;
      candidate.unknown.push_back(!need.say.empty() ? need.say
                                                    : need.condition.text() + " (the log does not state " +
                                                          lacking(need.condition) + ")");
      candidate.weight -= kUnknownCost;
    }
    // The first exclusion is the one that says that the fix is on already.
    if (!excludes.empty() && excludes.front().truth(scope()) == Truth::unknown)
      if (const std::string names = lacking(excludes.front()); !names.empty())
        candidate.unknown.push_back("not ruled out by " + names + ", which the log does not state");
    return true;
  }

  // What the change would need, by the memory model. False: it cannot run so, or it saves nothing worth a line.
  bool foretold(Candidate& candidate) const {
    if (!forecast_) return true;
    candidate.changed = changed_config(*candidate.entry, scope());
    if (!candidate.changed) return true;
    parsers::Result<Need> need = forecast_->need(*candidate.changed);
    if (!need.ok()) return need.error().code() == parsers::ErrorCode::unsupported;
    const std::int64_t saved = forecast_->now().peak.mid.count() - need->peak.mid.count();
    if (saved < kLeastSaving) return false;
    candidate.need = *need;
    if (!judged_by_need()) return true;
    candidate.reach = need->fits ? Reach::enough : Reach::not_enough;
    if (need->fits_surely) candidate.weight += kSureBonus;
    if (need->fits && need->spare < parsers::Bytes(forecast_->capacity().count() / kTightDivider)) candidate.weight -= kTight;
    return true;
  }
  // In these kinds the bytes decide; in the others (fragmentation, another process) the cause does.
  bool judged_by_need() const { return kind_ == "gpu.oom.capacity" || kind_ == "gpu.oom.limit"; }

  // No single change is enough: two or three together, or the word that nothing is.
  void combine(const std::vector<Candidate>& candidates, Plan& plan) const {
    if (!judged_by_need() || forecast_->now().fits) return;
    const Combination best = best_combination(candidates, *forecast_, config_, facts_);
    if (best.parts.size() < 2) return;
    Fix fix = combined(best, *forecast_, facts_, [this](Candidate& candidate, const Scope& scope) { return applied(candidate, scope); });
    for (const Candidate* part : best.parts) cite(*part->entry, fix);
    if (!best.need.fits)
      plan.verdict += std::string(plan.verdict.empty() ? "" : "; ") + "nothing in the catalogue reaches it: " + fix.title + " together are still short by " + parsers::bytes_text(best.need.short_by) +
                     "; more devices to shard over, or devices with more memory, would";
    plan.fixes.push_back(std::move(fix));
  }

  // The forms of the change for this run. False: it has none.
  bool applied(Candidate& candidate, const Scope& scope) const {
    const auto& forms = candidate.entry->apply;
    std::vector<std::string_view> taken;
    const auto take = [&](std::string_view name) {
      if (std::find(taken.begin(), taken.end(), name) != taken.end()) return;
      for (const auto& [framework, text] : forms)
        if (framework == name) {
          candidate.apply.push_back({framework, text.render(scope)});
          taken.push_back(name);
        }
    };
    for (const std::string& framework : frameworks_) take(framework);
    // Forms of programs that it is built on, where no program of the run has a form of its own.
    for (const std::string& framework : frameworks_)
      for (const std::string_view form : forms_of(framework))
        if (candidate.apply.empty()) take(form);
    const bool own = !candidate.apply.empty();
    if (own) candidate.weight += 3;
    take("any");
    if (frameworks_.empty()) {
      take("pytorch");
      if (candidate.apply.empty() && !any_environment(forms)) return false;
    }
    if (candidate.apply.empty() && !any_environment(forms)) return false;
    for (const auto& [framework, text] : forms)
      if (is_environment_name(framework)) take(framework);
    // Nothing names the program: where no form is for all programs, the forms of the most used ones stand as well.
    const bool general = std::any_of(forms.begin(), forms.end(),
                                     [](const auto& form) { return form.first == "any"; });
    if (frameworks_.empty() && !general)
      for (const auto& [framework, text] : forms)
        if (candidate.apply.size() < kSettings) take(framework);
    put_environment_first(candidate.apply);
    return true;
  }
  static bool any_environment(const std::vector<std::pair<std::string, TextForms>>& forms) {
    return std::any_of(forms.begin(), forms.end(),
                       [](const auto& form) { return is_environment_name(form.first); });
  }
  // host.oom.slurm: what to tell Slurm comes before the rest.
  void put_environment_first(std::vector<FixSetting>& apply) const {
    const std::string_view kind = kind_;
    const std::string_view name = kind.ends_with(".slurm") ? "slurm"
                                  : kind.ends_with(".k8s") || kind.ends_with(".evicted") ? "kubernetes"
                                  : kind.ends_with(".ray")                               ? "ray"
                                                                                         : "";
    std::stable_partition(apply.begin(), apply.end(),
                          [&](const FixSetting& setting) { return setting.framework == name; });
  }

  // Another change sets the same settings to the same values and more beside them, and needs no more memory: this one has nothing to add.
  // (Splitting the vocabulary by tensor parallelism beside raising tensor parallelism with sequence parallelism.)
  static bool moot(const Candidate& candidate, const std::vector<Candidate>& candidates) {
    if (!candidate.need || !candidate.changed) return false;
    return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
      if (&other == &candidate || !other.need || !other.changed || other.reach > candidate.reach || other.weight < kLeastWeight) return false;
      const auto& mine = candidate.entry->change;
      const auto& more = other.entry->change;
      const bool holds = std::all_of(mine.begin(), mine.end(), [&](const auto& change) {
        const parsers::Setting *a = candidate.changed->find(change.first), *b = other.changed->find(change.first);
        return a && b && a->value == b->value && std::any_of(more.begin(), more.end(), [&](const auto& c) { return c.first == change.first; });
      });
      if (!holds || other.need->peak.mid > candidate.need->peak.mid) return false;
      return more.size() > mine.size() || (other.need->peak.mid < candidate.need->peak.mid) || &other < &candidate;
    });
  }

  std::vector<const Candidate*> pick(const std::vector<Candidate>& candidates) const {
    std::vector<const Candidate*> picked;
    std::map<std::string_view, std::size_t> of_family;
    std::vector<const Candidate*> left;
    for (const Candidate& candidate : candidates) {
      if (picked.size() == limits_.fixes || candidate.weight < kLeastWeight) break;
      if (moot(candidate, candidates)) continue;
      if (of_family[candidate.entry->family]++ < limits_.of_family)
        picked.push_back(&candidate);
      else
        left.push_back(&candidate);
    }
    for (const Candidate* candidate : left)
      if (picked.size() < kLeast) picked.push_back(candidate);
    return picked;
  }

  Fix made(const Candidate& candidate) const {
    const CatalogueFix& entry = *candidate.entry;
    Fix fix;
    fix.id = entry.id;
    fix.title = entry.title;
    fix.apply = candidate.apply;
    fix.cost = entry.cost;
    fix.why = entry.why.render(scope());
    fix.assumes = candidate.unknown;
    fix.assumes.insert(fix.assumes.end(), entry.assumes.begin(), entry.assumes.end());
    fix.sources = entry.sources;
    cite(entry, fix);
    if (candidate.need)
      put_need(fix, *candidate.need, *forecast_);
    else
      add_saving(fix, entry, diagnosis_, forecast_.get());
    add_replay(fix, diagnosis_);
    return fix;
  }

  // What decided between this fix and others is told with it.
  void cite(const CatalogueFix& entry, Fix& fix) const {
    for (const Guidance* guidance : guidance_of(entry.id, scope())) {
      fix.why += (fix.why.empty() ? "" : " ") + guidance->say;
      if (!contains(fix.sources, guidance->source)) fix.sources.push_back(guidance->source);
    }
  }

  Scope scope() const { return {config_, facts_}; }

  const Diagnosis& diagnosis_;
  const std::vector<CatalogueFix>& catalogue_;
  PlanLimits limits_;
  Facts facts_;
  std::vector<std::string> frameworks_;
  parsers::RunConfig config_;           // with the framework, where only other lines name it
  std::string kind_;
  std::shared_ptr<const Forecast> forecast_;    // of a device memory failure whose configuration is known
  bool pieces_are_not_all_ = false;     // fragmentation, and too little memory beside it
};

}  // namespace

Plan plan_fixes(const Diagnosis& diagnosis, const std::vector<CatalogueFix>& catalogue, PlanLimits limits, std::shared_ptr<const Forecast> forecast) {
  return Planner(diagnosis, catalogue, limits, std::move(forecast)).run();
}

}  // namespace triage::signatures
