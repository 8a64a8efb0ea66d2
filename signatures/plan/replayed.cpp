#include "signatures/plan/replayed.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace triage::signatures {

using parsers::Bytes;

namespace {

constexpr int kRescue = 60, kNoHelp = -30;   // a rescue stands before all rules of thumb for the same kind
constexpr int kWorse = 10;                   // the least weight that is shown: advice that people find elsewhere is answered

// The settings that the catalogue's fixes propose (signatures/fixes/allocator.yaml).
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFixes = {
    {{"allocator.expandable", "expandable_segments:True"},
     {"allocator.max_split", "max_split_size_mb:512"},
     {"allocator.gc_threshold", "garbage_collection_threshold:0.8"},
     {"allocator.roundup", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"}}};

// The settings may be followed by the memory limit of the run.
const AllocatorWhatIf* what_if_of(const Diagnosis& diagnosis, std::string_view id) {
  const auto fix = std::find_if(kFixes.begin(), kFixes.end(), [&](const auto& known) { return known.first == id; });
  if (fix == kFixes.end()) return nullptr;
  for (const AllocatorWhatIf& what : diagnosis.what_if)
    if (what.settings.starts_with(fix->second) && (what.settings.size() == fix->second.size() || what.settings[fix->second.size()] == ',')) return &what;
  return nullptr;
}

}  // namespace

std::vector<AllocatorWhatIf> allocator_what_ifs(const WhatIfs& replayed, const ReplayTrace& trace) {
  std::vector<AllocatorWhatIf> out;
  const ReplayResult& base = replayed.check.result;
  if (!base.first_oom || trace.recorded.ooms == 0) return out;
  const AllocConf recorded = recorded_settings(trace);
  const Bytes wanted = base.first_oom->reserved + Bytes(segment_size(block_size(base.first_oom->tried.count(), recorded), recorded));
  for (const WhatIf& what : replayed.ranked) {
    if (what.effect == WhatIfEffect::as_recorded) continue;
    AllocatorWhatIf value;
    value.settings = what.settings;
    value.rescues = what.effect == WhatIfEffect::rescues;
    value.worse = makes_worse(what.effect);
    value.note = what.note;
    if (value.rescues) {
      value.saving = std::max(Bytes(), wanted - what.result.reserved_peak);
      if (trace.capacity) value.room_left = std::max(Bytes(), *trace.capacity - what.result.reserved_peak);
    }
    out.push_back(std::move(value));
  }
  return out;
}

int replay_weight(const Diagnosis& diagnosis, std::string_view id, int weight) {
  const AllocatorWhatIf* what = what_if_of(diagnosis, id);
  if (!what) return weight;
  if (what->worse) return std::min(weight, kWorse);
  return weight + (what->rescues ? kRescue : kNoHelp);
}

void add_replay(Fix& fix, const Diagnosis& diagnosis) {
  const AllocatorWhatIf* what = what_if_of(diagnosis, fix.id);
  if (!what) return;
  fix.fits = what->rescues;
  fix.basis = Basis::modelled;
  if (what->rescues) {
    fix.saving = Range{what->saving, what->saving, what->saving};
    fix.predicted_peak.reset();
    if (diagnosis.ledger && diagnosis.ledger->capacity) fix.predicted_peak = *diagnosis.ledger->capacity - what->room_left;
    fix.why += " The run's own requests, replayed under it: " + what->note + ".";
    return;
  }
  fix.saving.reset();
  fix.predicted_peak.reset();
  if (what->worse) fix.why = "Often advised, but the run's own requests, replayed under it, say: " + what->note + ".";
  else fix.why += " But the run's own requests, replayed under it, say: " + what->note + ".";
}

}  // namespace triage::signatures
