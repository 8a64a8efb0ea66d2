#include "signatures/memory/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "parsers/base/quantity.hpp"

namespace triage::signatures::memory {
namespace {

// limit: an observation further from the model than this share of itself is of something else (another model, another job on the
// card, a leak) and is told, not used.
constexpr double kTrust = 0.5;

Bytes sum_by_name(const PhaseEstimate& phase, std::string_view name) {
  Bytes sum;
  for (const Term& t : phase.terms)
    if (t.name == name) sum += t.mid;
  return sum;
}
Bytes optimizer_of(const PhaseEstimate& phase) { return sum_by_name(phase, term::kOptimizer); }

// Moments that `phase` counts and the first step does not have yet.
Bytes moments(const StageEstimate& stage, const PhaseEstimate& phase) {
  if (phase.phase != Phase::forward && phase.phase != Phase::loss && phase.phase != Phase::backward) return {};
  for (const PhaseEstimate& first : stage.phases)
    if (first.phase == Phase::first_step) return std::max(Bytes(), optimizer_of(phase) - optimizer_of(first));
  return {};
}

Bytes modelled(const Observation& seen, const StageEstimate& stage) {
  using Kind = Observation::Kind;
  if (seen.kind == Kind::allocated_at_rest) return stage.static_bytes;
  if (seen.kind == Kind::peak_reserved) {
    Bytes sum = stage.peak_allocated.mid;
    for (const Term& t : stage.terms)
      if (t.name == term::kAllocator) sum += t.mid;
    return sum;
  }
  if (seen.kind == Kind::term) {
    Bytes sum;
    for (const Term& t : stage.terms)
      if (t.name == seen.term) sum += t.mid;
    return sum;
  }
  if (seen.phase)
    for (const PhaseEstimate& phase : stage.phases)
      if (phase.phase == *seen.phase) return phase.allocated.mid - (seen.before_states ? moments(stage, phase) : Bytes()) - (seen.before_gradients ? sum_by_name(phase, term::kGradients) : Bytes());
  return stage.peak_allocated.mid;
}

const StageEstimate& stage_of(const Observation& seen, const Estimate& estimate) {
  if (seen.pipeline_rank)
    for (const StageEstimate& stage : estimate.stages)
      if (stage.pipeline_rank == *seen.pipeline_rank) return stage;
  const auto gap = [&](const StageEstimate& s) { return std::abs((seen.bytes - modelled(seen, s)).count()); };
  return *std::min_element(estimate.stages.begin(), estimate.stages.end(),
                           [&](const StageEstimate& a, const StageEstimate& b) { return gap(a) < gap(b); });
}

// What scales with the micro batch, the sequence and the layers in flight.
double activations(const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& t : terms)
    for (const std::string_view name : {term::kActivations, term::kMoe, term::kVision, term::kLogits, term::kBackward, term::kRecompute})
      if (t.name == name) sum += static_cast<double>(t.mid.count());
  return sum;
}

void add(std::vector<Term>& terms, Bytes bytes, std::string note) {
  if (bytes.count() != 0) terms.push_back({std::string(term::kUnexplained), bytes, bytes, bytes, std::move(note), false});
}

}  // namespace

Bytes modelled(const Observation& seen, const Estimate& estimate) {
  return estimate.stages.empty() ? Bytes() : modelled(seen, stage_of(seen, estimate));
}

Calibration calibrate(const Estimate& estimate, std::span<const Observation> observations) {
  Calibration out;
  if (estimate.stages.empty()) return out;
  using Kind = Observation::Kind;
  for (const Observation& seen : observations) {
    const StageEstimate& stage = stage_of(seen, estimate);
    const Bytes model = modelled(seen, stage), gap = seen.bytes - model;
    const std::string figures = parsers::bytes_text(seen.bytes) + " measured (" + seen.origin + "), " + parsers::bytes_text(model) + " modelled";
    if (seen.bytes.count() <= 0 || std::abs(static_cast<double>(gap.count())) > kTrust * static_cast<double>(seen.bytes.count())) {
      // A failed allocation below the peak of the model is no contradiction: the run died on the way up.
      const bool on_the_way = seen.kind == Kind::failed_allocation && gap.count() < 0;
      out.notes.push_back(figures + (on_the_way ? ": it died before the modelled peak; not used" : ": too far apart; not used"));
      continue;
    }
    switch (seen.kind) {
      case Kind::allocated_at_rest:
        out.rest = gap;
        out.notes.push_back("at rest " + figures);
        break;
      case Kind::peak_allocated:
        if (!out.peak || out.at_least || gap > *out.peak) {
          out.peak = gap;
          out.at_least = false;
          out.phase = stage.peak_phase;
        }
        out.notes.push_back("peak " + figures);
        break;
      case Kind::failed_allocation:
        // The real peak is at least this much; where the model is above it, nothing follows.
        if (gap.count() > 0 && !out.peak) {
          out.peak = gap;
          out.at_least = true;
          out.phase = seen.phase;
        }
        out.notes.push_back("at least " + figures);
        break;
      case Kind::peak_reserved: out.notes.push_back("reserved " + figures + ": for comparison only"); break;
      case Kind::term: out.notes.push_back(seen.term + " " + figures + ": for comparison only"); break;
    }
  }
  return out;
}

Estimate apply(const Calibration& calibration, const Estimate& original, Estimate changed) {
  const Bytes rest = calibration.rest.value_or(Bytes());
  const Bytes beyond = calibration.peak ? *calibration.peak - rest : Bytes();
  if (original.stages.empty() || (rest.count() == 0 && beyond.count() == 0)) return changed;
  for (StageEstimate& stage : changed.stages) {
    const auto at = std::min(static_cast<std::size_t>(std::max<Count>(0, stage.pipeline_rank)), original.stages.size() - 1);
    const double before = activations(original.stages[at].terms);
    std::vector<Term> outside;
    for (const Term& t : stage.terms)
      if (t.outside) outside.push_back(t);
    for (PhaseEstimate& phase : stage.phases) {
      add(phase.terms, rest, "measured at rest beyond the model");
      const double now = activations(phase.terms);
      const double share = before > 0 ? std::min(now / before, 4.0) : 0;
      add(phase.terms, Bytes(std::llround(static_cast<double>(beyond.count()) * share)),
          calibration.at_least ? "the failed request shows at least this much beyond the model"
                               : "measured at the peak beyond the model, with the activations");
    }
    stage.static_bytes += rest;
    close_stage(stage, outside);
  }
  return changed;
}

}  // namespace triage::signatures::memory
