#include "signatures/memory/estimate.hpp"

#include <algorithm>

#include "signatures/memory/frameworks.hpp"

namespace triage::signatures::memory {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Key;

const StageEstimate& Estimate::highest() const {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const StageEstimate& a, const StageEstimate& b) {
                             return a.peak_allocated.mid < b.peak_allocated.mid;
                           });
}

void close_stage(StageEstimate& stage, const std::vector<Term>& outside) {
  const PhaseEstimate* peak = nullptr;
  for (PhaseEstimate& phase : stage.phases) {
    phase.allocated = sum_of(phase.terms);
    if (!peak || phase.allocated.mid > peak->allocated.mid) peak = &phase;
  }
  if (!peak) return;
  stage.peak_phase = peak->phase;
  stage.terms = peak->terms;
  stage.peak_allocated = peak->allocated;
  // A phase that is lower in the middle may still be the highest at the upper or lower end.
  for (const PhaseEstimate& phase : stage.phases) {
    stage.peak_allocated.low = std::max(stage.peak_allocated.low, phase.allocated.low);
    stage.peak_allocated.high = std::max(stage.peak_allocated.high, phase.allocated.high);
  }
  stage.peak_allocated.low = std::min(stage.peak_allocated.low, stage.peak_allocated.mid);
  stage.terms.insert(stage.terms.end(), outside.begin(), outside.end());
  stage.peak_device = stage.peak_allocated + sum_of(outside, true);
}

parsers::Result<Estimate> estimate(const parsers::RunConfig& config) {
  const std::string framework = config.text(Key::framework).value_or("");
  if (framework == "megatron-lm" || framework == "megatron-bridge" || framework == "nemo")
    return estimate_megatron(config);
  if (framework == "jax")
    return Error(ErrorCode::unsupported, "there is no memory model of JAX programs yet");
  return estimate_torch(config);
}

}  // namespace triage::signatures::memory
