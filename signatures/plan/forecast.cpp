#include "signatures/plan/forecast.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "signatures/plan/facts.hpp"
#include "signatures/plan/observed.hpp"

namespace triage::signatures {

using parsers::Bytes;
using parsers::Key;
using parsers::RunConfig;

namespace {

// Free bytes that the allocator needs beside the peak: its segments are never full. PyTorch: c10/cuda/CUDACachingAllocator.cpp
// rounds large requests to 2 MiB and serves those of 1 to 10 MiB from segments of 20 MiB.
constexpr std::int64_t kRoomDivider = 50;      // 2 % of the peak
constexpr std::string_view kMockData =
    "the run's data are mock data: peak and speed do not hold for real images (the tower's activations are missing or smaller, the speed looks about twice "
    "as good; NVIDIA-NeMo/Megatron-Bridge@067f987: skills/nemo-mbridge-perf-moe-vlm-training)";
constexpr std::size_t kAssumptions = 4;        // shown with one fix

Range plan_range(const memory::Range& range) { return {range.low, range.mid, range.high}; }

}  // namespace

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
  made.config_ = config;
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
  need.spare = need.fits ? *capacity_ - total(need.peak.mid) : Bytes();
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
  const RunConfig completed = completed_config(diagnosis, config);
  std::vector<memory::Observation> observations = observations_of(diagnosis);
  parsers::Result<Forecast> made = Forecast::make(completed, observations, capacity, outside);
  if (!made.ok()) return made;
  const bool pictures = made->uncalibrated().shape.vision.has_value();
  if (pictures && uses_mock_data(config)) made->assume(std::string(kMockData));
  const auto gradients_were_there = [&observations] {
    for (memory::Observation& seen : observations) seen.before_gradients = false;
  };
  std::optional<Settled> settled = settle_open_amount(completed, made->uncalibrated(), observations,
                                                         routed_to_this_rank(diagnosis, completed, made->uncalibrated()));
  if (!settled) {
    // Nothing is open: what is beyond the model may be the gradients of an earlier micro batch of the same step.
    const auto failed = std::find_if(observations.begin(), observations.end(), [](const memory::Observation& o) { return o.kind == memory::Observation::Kind::failed_allocation; });
    if (failed == observations.end() || !had_gradients(completed, made->uncalibrated(), *failed)) return made;
    gradients_were_there();
    parsers::Result<Forecast> again = Forecast::make(completed, observations, capacity, outside);
    if (!again.ok()) return made;
    if (pictures && uses_mock_data(config)) again->assume(std::string(kMockData));
    again->assume("it died in a later micro batch of its step, beside the gradients of those before it: so much was allocated");
    return again;
  }
  if (settled->with_gradients) gradients_were_there();
  parsers::Result<Forecast> better = Forecast::make(settled->config, observations, capacity, outside);
  if (!better.ok()) return made;
  if (pictures && uses_mock_data(config)) better->assume(std::string(kMockData));
  better->assume(std::move(settled->text));
  return better;
}

}  // namespace triage::signatures
