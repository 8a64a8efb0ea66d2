#include "signatures/plan/combine.hpp"

#include <algorithm>
#include <utility>

namespace triage::signatures {

namespace {

constexpr std::size_t kPairsOf = 12;     // best candidates that are tried in pairs
constexpr std::size_t kTriplesOf = 8;    // and in triples

bool share_a_setting(const CatalogueFix& a, const CatalogueFix& b) {
  return std::any_of(a.change.begin(), a.change.end(), [&](const auto& change) {
    return std::any_of(b.change.begin(), b.change.end(), [&](const auto& other) { return other.first == change.first; });
  });
}

bool possible(const CatalogueFix& entry, const Scope& scope) {
  const auto holds = [&](const Expression& e) { return e.truth(scope); };
  return std::none_of(entry.excludes.begin(), entry.excludes.end(), [&](const Expression& e) { return holds(e) == Truth::yes; }) &&
         std::none_of(entry.needs.begin(), entry.needs.end(), [&](const Requirement& r) { return holds(r.condition) == Truth::no; });
}

// Applies the parts one after the other. Empty: they do not go together.
std::optional<Combination> tried(std::vector<const Candidate*> parts, const Forecast& forecast, const parsers::RunConfig& config, const Facts& facts) {
  Combination out;
  parsers::RunConfig now = config;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (parts[i]->entry->family == parts[j]->entry->family || share_a_setting(*parts[i]->entry, *parts[j]->entry)) return std::nullopt;
    const Scope scope{now, facts};
    if (i > 0 && !possible(*parts[i]->entry, scope)) return std::nullopt;
    std::optional<parsers::RunConfig> next = changed_config(*parts[i]->entry, scope);
    if (!next) return std::nullopt;
    out.before.push_back(std::move(now));
    now = std::move(*next);
    out.weight += parts[i]->weight;
  }
  parsers::Result<Need> need = forecast.need(now);
  if (!need.ok()) return std::nullopt;
  out.need = *need;
  out.parts = std::move(parts);
  return out;
}

bool better(const Combination& a, const Combination& b) {
  if (b.parts.empty()) return true;
  if (a.need.fits != b.need.fits) return a.need.fits;
  return a.need.fits ? a.weight > b.weight : a.need.short_by < b.need.short_by;
}

// "A", "a" in the middle of a sentence.
std::string lower_first(std::string text) {
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z') text[0] = static_cast<char>(text[0] + ('a' - 'A'));
  return text;
}

void join(std::vector<FixSetting>& all, const std::vector<FixSetting>& more) {
  for (const FixSetting& setting : more) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const FixSetting& s) { return s.framework == setting.framework; });
    if (same == all.end())
      all.push_back(setting);
    else
      same->set += (setting.framework == "megatron-lm" ? " " : "; ") + setting.set;
  }
}

}  // namespace

Combination best_combination(const std::vector<Candidate>& candidates, const Forecast& forecast, const parsers::RunConfig& config, const Facts& facts) {
  std::vector<const Candidate*> usable;
  for (const Candidate& candidate : candidates)
    if (candidate.changed && candidate.need) usable.push_back(&candidate);
  std::stable_sort(usable.begin(), usable.end(), [](const Candidate* a, const Candidate* b) { return a->weight > b->weight; });
  Combination best;
  const auto offer = [&](std::vector<const Candidate*> parts) {
    if (auto made = tried(std::move(parts), forecast, config, facts); made && better(*made, best)) best = std::move(*made);
  };
  const std::size_t pairs = std::min(usable.size(), kPairsOf), triples = std::min(usable.size(), kTriplesOf);
  for (std::size_t i = 0; i < pairs; ++i)
    for (std::size_t j = i + 1; j < pairs; ++j) offer({usable[i], usable[j]});
  if (best.need.fits && !best.parts.empty()) return best;
  for (std::size_t i = 0; i < triples; ++i)
    for (std::size_t j = i + 1; j < triples; ++j)
      for (std::size_t k = j + 1; k < triples; ++k) offer({usable[i], usable[j], usable[k]});
  return best;
}

Fix combined(const Combination& combination, const Forecast& forecast, const Facts& facts, const std::function<bool(Candidate&, const Scope&)>& render) {
  Fix fix;
  double low = 0, high = 0;
  for (std::size_t i = 0; i < combination.parts.size(); ++i) {
    Candidate part = *combination.parts[i];
    const Scope scope{combination.before[i], facts};
    part.apply.clear();
    render(part, scope);
    const CatalogueFix& entry = *part.entry;
    fix.id += (i ? "+" : "") + entry.id;
    fix.title += i == 0 ? entry.title : (i + 1 == combination.parts.size() ? " and " : ", ") + lower_first(entry.title);
    fix.parts.push_back(entry.id);
    join(fix.apply, part.apply);
    low += entry.cost.step_time_low_percent.value_or(0);
    high += entry.cost.step_time_high_percent.value_or(0);
    if (!entry.cost.note.empty()) fix.cost.note += (fix.cost.note.empty() ? "" : "; ") + entry.cost.note;
    for (const std::string& text : part.unknown) fix.assumes.push_back(text);
    for (const std::string& text : entry.assumes) fix.assumes.push_back(text);
    for (const std::string& text : entry.sources)
      if (std::find(fix.sources.begin(), fix.sources.end(), text) == fix.sources.end()) fix.sources.push_back(text);
  }
  if (low != 0 || high != 0) {
    fix.cost.step_time_low_percent = low;
    fix.cost.step_time_high_percent = high;
  }
  fix.why = combination.need.fits ? "No single change is enough; these together are." : "Even these together are not enough.";
  put_need(fix, combination.need, forecast);
  return fix;
}

}  // namespace triage::signatures
