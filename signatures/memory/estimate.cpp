#include "signatures/memory/estimate.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

namespace {

parsers::Result<Estimate> estimate_once(const parsers::RunConfig& config) {
  const std::string framework = config.text(Key::framework).value_or("");
  if (framework == "megatron-lm" || framework == "megatron-bridge" || framework == "nemo")
    return estimate_megatron(config);
  if (framework == "jax")
    return Error(ErrorCode::unsupported, "there is no memory model of JAX programs yet");
  return estimate_torch(config);
}

// Settings that nobody stated, with another value that is as usual as the one the model took.
std::vector<std::pair<std::string, parsers::RunConfig>> alternatives(const parsers::RunConfig& config, const Estimate& taken) {
  std::vector<std::pair<std::string, parsers::RunConfig>> out;
  const auto open = [&](Key key) {
    return !config.has(key) && std::any_of(taken.assumptions.begin(), taken.assumptions.end(),
                                           [&](const Assumption& a) { return a.key == parsers::key_info(key).name; });
  };
  const auto with = [&](Key key, parsers::Value value) {
    parsers::RunConfig other = config;
    other.set(key, std::move(value), "another usual value");
    out.emplace_back(std::string(parsers::key_info(key).name), std::move(other));
  };
  const ModelShape& shape = taken.shape;
  if (open(Key::dtype)) with(Key::dtype, std::string("bf16"));
  if (open(Key::kv_heads) && shape.heads % 8 == 0 && shape.heads > 8) with(Key::kv_heads, shape.heads / 8);
  if (open(Key::gated_mlp)) with(Key::gated_mlp, false);
  if (open(Key::tied_embeddings)) with(Key::tied_embeddings, true);
  if (shape.vision && open(Key::images) && shape.vision->patches == 0) {
    // As many image tokens as a sample has room for.
    parsers::RunConfig other = config;
    const Count merge = shape.vision->merge;
    other.set(Key::images, taken.layout.micro_batch, "another usual value");
    other.set(Key::image_grid_height, merge, "another usual value");
    other.set(Key::image_grid_width, taken.layout.seq_length * merge, "another usual value");
    out.emplace_back("images", std::move(other));
  }
  return out;
}

void widen(Range& range, const Range& other) {
  range.low = std::min(range.low, other.low);
  range.high = std::max(range.high, other.high);
}

}  // namespace

parsers::Result<Estimate> estimate(const parsers::RunConfig& config) {
  parsers::Result<Estimate> made = estimate_once(config);
  if (!made.ok()) return made;
  std::string spanned;
  for (auto& [name, other] : alternatives(config, *made)) {
    const parsers::Result<Estimate> changed = estimate_once(other);
    if (!changed.ok() || changed->stages.size() != made->stages.size()) continue;
    for (std::size_t i = 0; i < made->stages.size(); ++i) {
      widen(made->stages[i].peak_allocated, changed->stages[i].peak_allocated);
      widen(made->stages[i].peak_device, changed->stages[i].peak_device);
    }
    spanned += (spanned.empty() ? "" : ", ") + name;
  }
  if (!spanned.empty()) assume(made->assumptions, "", "the range spans other usual values of " + spanned + ", which are not stated");
  return made;
}

}  // namespace triage::signatures::memory
