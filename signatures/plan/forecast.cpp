#include "signatures/plan/forecast.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace triage::signatures {

using parsers::Bytes;
using parsers::Key;

namespace {

// Free bytes that the allocator needs beside the peak: its segments are never full. PyTorch: c10/cuda/CUDACachingAllocator.cpp
// rounds large requests to 2 MiB and serves those of 1 to 10 MiB from segments of 20 MiB.
constexpr std::int64_t kRoomDivider = 50;      // 2 % of the peak
constexpr std::size_t kAssumptions = 4;        // shown with one fix

memory::Phase memory_phase(Phase phase) {
  switch (phase) {
    case Phase::loss: return memory::Phase::loss;
    case Phase::backward: return memory::Phase::backward;
    case Phase::optimizer_init:
    case Phase::optimizer_step: return memory::Phase::first_step;
    case Phase::init:
    case Phase::load: return memory::Phase::init;
    default: return memory::Phase::forward;
  }
}

Range plan_range(const memory::Range& range) { return {range.low, range.mid, range.high}; }

}  // namespace

std::vector<memory::Observation> observations_of(const Diagnosis& diagnosis) {
  using Kind = memory::Observation::Kind;
  std::vector<memory::Observation> out;
  const auto add = [&out](Kind kind, Bytes bytes, std::string origin) {
    memory::Observation made;
    made.kind = kind;
    made.bytes = bytes;
    made.origin = std::move(origin);
    out.push_back(std::move(made));
  };
  for (const parsers::MemoryReport& report : diagnosis.memory) {
    const std::string origin = report.printer + (report.rank ? ", rank " + std::to_string(*report.rank) : "") +
                               (report.iteration ? ", iteration " + std::to_string(*report.iteration) : "");
    if (report.max_allocated) add(Kind::peak_allocated, *report.max_allocated, origin);
    if (report.allocated && report.max_allocated) add(Kind::allocated_at_rest, *report.allocated, origin);
  }
  if (diagnosis.ledger && diagnosis.ledger->allocated && diagnosis.ledger->tried && diagnosis.kind.starts_with("gpu.oom")) {
    add(Kind::failed_allocation, *diagnosis.ledger->allocated + *diagnosis.ledger->tried, "the out-of-memory error");
    if (diagnosis.phase != Phase::unknown) out.back().phase = memory_phase(diagnosis.phase);
  }
  return out;
}

parsers::Result<Forecast> Forecast::make(const parsers::RunConfig& config, std::vector<memory::Observation> observations, std::optional<Bytes> capacity,
                                         std::optional<Bytes> outside) {
  parsers::Result<memory::Estimate> estimate = memory::estimate(config);
  if (!estimate.ok()) return std::move(estimate).error();
  Forecast made;
  made.base_ = std::move(*estimate);
  made.calibration_ = memory::calibrate(made.base_, observations);
  made.calibrated_ = memory::apply(made.calibration_, made.base_, made.base_);
  made.capacity_ = capacity;
  made.outside_ = outside;
  made.now_ = made.need_of(made.calibrated_);
  return made;
}

parsers::Result<Need> Forecast::need(const parsers::RunConfig& changed) const {
  parsers::Result<memory::Estimate> estimate = memory::estimate(changed);
  if (!estimate.ok()) return std::move(estimate).error();
  const std::vector<std::string> faults = memory::layout_faults(estimate->layout, estimate->shape);
  if (!faults.empty()) return parsers::Error(parsers::ErrorCode::conflict, faults.front());
  return need_of(memory::apply(calibration_, base_, std::move(*estimate)));
}

Need Forecast::need_of(const memory::Estimate& estimate) const {
  const memory::StageEstimate& stage = estimate.highest();
  Need need;
  need.peak = plan_range(stage.peak_allocated);
  if (!capacity_) return need;
  Bytes beside;
  if (outside_) {
    beside = *outside_;
  } else {
    for (const memory::Term& term : stage.terms)
      if (term.outside && term.name != memory::term::kAllocator) beside += term.mid;
  }
  const auto total = [&](Bytes peak) { return peak + Bytes(peak.count() / kRoomDivider) + beside; };
  need.fits = total(need.peak.mid) <= *capacity_;
  need.fits_surely = total(need.peak.high) <= *capacity_;
  if (!need.fits) need.short_by = total(need.peak.mid) - *capacity_;
  return need;
}

void put_need(Fix& fix, const Need& need, const Forecast& forecast) {
  const Range& before = forecast.now().peak;
  std::array<Bytes, 3> saved = {before.low - need.peak.low, before.mid - need.peak.mid, before.high - need.peak.high};
  const auto [least, most] = std::minmax_element(saved.begin(), saved.end());
  fix.saving = Range{*least, saved[1], *most};
  fix.predicted_peak = need.peak.mid;
  if (forecast.has_limit()) fix.fits = need.fits;
  fix.basis = Basis::modelled;
  for (const memory::Assumption& assumption : forecast.estimate().assumptions)
    if (fix.assumes.size() < kAssumptions) fix.assumes.push_back(assumption.text);
}

std::vector<CompositionTerm> modelled_composition(const Forecast& forecast) {
  std::vector<CompositionTerm> out;
  for (const memory::Term& term : forecast.estimate().highest().terms) {
    if (term.mid.count() <= 0) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const CompositionTerm& t) { return t.term == term.name; });
    if (same != out.end())
      same->bytes += term.mid;
    else
      out.push_back({term.name, term.mid, Basis::modelled});
  }
  std::stable_sort(out.begin(), out.end(), [](const CompositionTerm& a, const CompositionTerm& b) { return a.bytes > b.bytes; });
  return out;
}

parsers::Result<Forecast> forecast_of(const Diagnosis& diagnosis, const parsers::RunConfig& config) {
  std::optional<Bytes> capacity, outside;
  if (diagnosis.ledger) {
    capacity = diagnosis.ledger->capacity;
    if (diagnosis.ledger->outside_pytorch) {
      outside = *diagnosis.ledger->outside_pytorch;
      for (const parsers::ProcessMemory& other : diagnosis.ledger->other_processes) *outside += other.bytes;
    }
    // A limit of the process counts what its allocator reserves, not what stands outside.
    if (const auto limit = diagnosis.ledger->limit; limit && (!capacity || *limit < *capacity)) {
      capacity = limit;
      outside = Bytes();
    }
  }
  if (!capacity)
    if (const auto stated = config.integer(Key::gpu_capacity_bytes)) capacity = Bytes(*stated);
  return Forecast::make(config, observations_of(diagnosis), capacity, outside);
}

}  // namespace triage::signatures
