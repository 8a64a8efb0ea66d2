#include "signatures/memory/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "parsers/base/quantity.hpp"

namespace triage::signatures {
namespace {

using parsers::Bytes;
using parsers::bytes_text;

constexpr double kSamePercent = 1.0;   // a difference of the peak that is not worth a change

WhatIfEffect effect_of(const ReplayResult& base, const ReplayResult& other) {
  if (base.first_oom && !other.first_oom) return WhatIfEffect::rescues;
  if (!base.first_oom && other.first_oom) return WhatIfEffect::fails;
  if (base.first_oom && other.first_oom) {
    if (other.first_oom->event > base.first_oom->event) return WhatIfEffect::fails_later;
    return other.first_oom->event < base.first_oom->event ? WhatIfEffect::fails : WhatIfEffect::fails_too;
  }
  const double change = static_cast<double>((other.reserved_peak - base.reserved_peak).count());
  const double bound = kSamePercent / 100 * static_cast<double>(base.reserved_peak.count());
  if (change > bound || (change >= -bound && other.retries > base.retries)) return WhatIfEffect::higher;
  return change < -bound ? WhatIfEffect::lower : WhatIfEffect::same;
}

int order(WhatIfEffect effect) {
  switch (effect) {
    case WhatIfEffect::rescues: return 0;
    case WhatIfEffect::lower: return 1;
    case WhatIfEffect::as_recorded:
    case WhatIfEffect::same: return 2;
    case WhatIfEffect::higher: return 3;
    case WhatIfEffect::fails_later: return 4;
    case WhatIfEffect::fails_too: return 5;
    case WhatIfEffect::fails: return 6;
  }
  return 7;
}

std::string retries_text(std::int64_t retries) {
  if (retries == 0) return "";
  return retries == 1 ? " with one release of the whole cache" : " with " + std::to_string(retries) + " releases of the whole cache";
}

std::string failure_text(const ReplayResult& result) {
  const ReplayOutOfMemory& oom = *result.first_oom;
  return "out of memory at event " + std::to_string(oom.event) + " (" + bytes_text(oom.tried) + " asked for with " +
         bytes_text(oom.reserved) + " reserved, " + bytes_text(oom.allocated) + " of it in use)";
}

std::string note_of(const ReplayResult& base, const WhatIf& what) {
  const ReplayResult& result = what.result;
  const std::string peak = bytes_text(result.reserved_peak), before = bytes_text(base.reserved_peak);
  switch (what.effect) {
    case WhatIfEffect::as_recorded:
      return result.first_oom ? "the run as it was: " + failure_text(result) : "the run as it was: " + peak + " reserved at the peak" + retries_text(result.retries);
    case WhatIfEffect::rescues:
      return "gets past the failure: " + peak + " reserved at the peak" + retries_text(result.retries);
    case WhatIfEffect::lower: return peak + " reserved at the peak instead of " + before + retries_text(result.retries);
    case WhatIfEffect::same: return "no difference: " + peak + " reserved at the peak" + retries_text(result.retries);
    case WhatIfEffect::higher:
      return "would be worse: " + peak + " reserved at the peak instead of " + before + retries_text(result.retries);
    case WhatIfEffect::fails_later: return "not enough: " + failure_text(result);
    case WhatIfEffect::fails_too: return "no help: " + failure_text(result);
    case WhatIfEffect::fails: return "would be worse: " + failure_text(result);
  }
  return "";
}

}  // namespace

std::string_view effect_name(WhatIfEffect effect) {
  switch (effect) {
    case WhatIfEffect::as_recorded: return "as_recorded";
    case WhatIfEffect::rescues: return "rescues";
    case WhatIfEffect::fails_later: return "fails_later";
    case WhatIfEffect::lower: return "lower";
    case WhatIfEffect::same: return "same";
    case WhatIfEffect::higher: return "higher";
    case WhatIfEffect::fails_too: return "fails_too";
    case WhatIfEffect::fails: return "fails";
  }
  return "same";
}

bool makes_worse(WhatIfEffect effect) { return effect == WhatIfEffect::higher || effect == WhatIfEffect::fails; }

WhatIfs what_if(const ReplayTrace& trace, std::span<const AllocConf> settings, const ReplayLimits& limits) {
  WhatIfs out;
  out.check = check_replay(trace, limits);
  const ReplayResult& base = out.check.result;
  const AllocConf recorded = recorded_settings(trace);
  WhatIf own;
  own.settings = settings_text(recorded);
  own.result = base;
  own.effect = WhatIfEffect::as_recorded;
  own.note = note_of(base, own);
  out.ranked.push_back(std::move(own));
  std::vector<AllocConf> done = {recorded};
  for (const AllocConf& wanted : settings) {
    if (std::find(done.begin(), done.end(), wanted) != done.end()) continue;
    done.push_back(wanted);
    WhatIf what;
    what.settings = settings_text(wanted);
    what.result = replay(trace, wanted, limits);
    what.effect = effect_of(base, what.result);
    what.reserved_change = what.result.reserved_peak - base.reserved_peak;
    what.note = note_of(base, what);
    out.ranked.push_back(std::move(what));
  }
  std::stable_sort(out.ranked.begin(), out.ranked.end(), [](const WhatIf& a, const WhatIf& b) {
    if (order(a.effect) != order(b.effect)) return order(a.effect) < order(b.effect);
    const bool failed = a.result.first_oom && b.result.first_oom;
    if (failed && a.result.first_oom->event != b.result.first_oom->event) return a.result.first_oom->event > b.result.first_oom->event;
    if (!failed && a.result.reserved_peak != b.result.reserved_peak) return a.result.reserved_peak < b.result.reserved_peak;
    return a.result.retries < b.result.retries;
  });
  return out;
}

std::vector<AllocConf> usual_settings(const ReplayTrace& trace, const ReplayLimits& limits) {
  const AllocConf recorded = recorded_settings(trace);
  AllocConf plain;
  plain.memory_limit = recorded.memory_limit;
  plain.per_process_memory_fraction = recorded.per_process_memory_fraction;
  const auto with = [&plain](auto&& change) {
    AllocConf settings = plain;
    change(settings);
    return settings;
  };
  std::vector<AllocConf> out = {plain};
  out.push_back(with([](AllocConf& s) { s.expandable_segments = true; }));
  for (const std::int64_t mib : {64, 128, 256, 512})
    out.push_back(with([&](AllocConf& s) { s.max_split_size = Bytes(mib * allocator::kMiB); }));
  AllocConf limited = plain;
  if (!limited.memory_limit && !limited.per_process_memory_fraction) {
    if (limits.capacity) limited.memory_limit = limits.capacity;
    else if (trace.capacity) limited.memory_limit = trace.capacity;
  }
  for (const double threshold : {0.6, 0.8}) {
    AllocConf collect = limited;
    collect.garbage_collection_threshold = threshold;
    out.push_back(collect);
  }
  out.push_back(with([](AllocConf& s) { s.roundup_power2_divisions.fill(8); }));
  // [256:1,512:2,1024:4,>:8], the example of PyTorch's notes.
  out.push_back(with([](AllocConf& s) {
    for (std::size_t i = 0; i < s.roundup_power2_divisions.size(); ++i)
      s.roundup_power2_divisions[i] = i <= 8 ? 1 : i == 9 ? 2 : i == 10 ? 4 : 8;
  }));
  return out;
}

}  // namespace triage::signatures
