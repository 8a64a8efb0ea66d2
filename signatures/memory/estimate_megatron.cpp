// Megatron: static memory of each stage, one walk through each of its model chunks, the schedule over them, the optimizer's step.
#include <algorithm>
#include <string>

#include "signatures/memory/frameworks.hpp"
#include "signatures/memory/megatron_chunk.hpp"
#include "signatures/memory/megatron_schedule.hpp"
#include "signatures/memory/megatron_setup.hpp"
#include "signatures/memory/megatron_static.hpp"

namespace triage::signatures::memory {
namespace {

double real(Count n) { return static_cast<double>(n); }

double part(const Parts& parts, Part which) { return parts[static_cast<std::size_t>(which)]; }

std::string rounded(double number) { return std::to_string(static_cast<Count>(number + 0.5)); }

// Patches of images in the vision tower: two norms' inputs and outputs, queries, keys, values, attention output, MLP; only what is
// trained. limit: kinds of towers differ; the range is a fifth to either side.
Range vision_kept(const MegatronSetup& run) {
  if (!run.shape.vision || run.shape.vision->frozen || run.shape.vision->patches == 0) return {};
  const VisionShape& v = *run.shape.vision;
  const double layer = run.weight * (4 * real(v.hidden) + 4 * real(v.hidden) + (v.gated ? 3.0 : 2.0) * real(v.ffn));
  const bool full = run.recompute.kind == RecomputeRules::Kind::uniform;
  const double patch = real(v.layers) * (full ? run.weight * real(v.hidden) : layer) +
                       real(v.mergers) * 4 * run.weight * real(v.hidden);
  const double bytes = patch * real(v.patches);
  return Range::of(0.8 * bytes, bytes, 1.25 * bytes);
}

struct StageWalk {
  std::vector<Term> base;  // live in every phase
  double inputs = 0;       // of the last micro batch, remembered by the chunks; part of `mid` and `high` during a step
  StepTops mid, high;      // balanced experts; the worst that routing allows
};

void add_parts(std::vector<Term>& terms, std::string_view name, Part which, const Parts& mid, const Parts& high,
               std::string note) {
  const double m = part(mid, which), h = std::max(m, part(high, which));
  if (m > 0 || h > 0) terms.push_back(make_term(name, Range::of(m, m, h), std::move(note)));
}

PhaseEstimate phase_of(Phase phase, const StageWalk& walk, const Parts& mid, const Parts& high, const Range& vision) {
  PhaseEstimate out;
  out.phase = phase;
  out.terms = walk.base;
  add_parts(out.terms, term::kActivations, Part::dense, mid, high, "kept for the backward pass by the layers in flight");
  add_parts(out.terms, term::kMoe, Part::moe, mid, high,
            "routed rows kept for the backward pass; the upper end is every rank choosing the same experts' rank");
  add_parts(out.terms, term::kLogits, Part::logits, mid, high, "logits and their soft-max");
  add_parts(out.terms, term::kCommunication, Part::exchange, mid, high, "inputs, outputs and gradients between pipeline stages");
  Parts sum_mid{}, sum_high{};
  for (const Part p : {Part::transient, Part::weight_gradient}) {
    sum_mid[0] += part(mid, p);
    sum_high[0] += part(high, p);
  }
  add_parts(out.terms, phase == Phase::forward ? term::kWorkspace : term::kBackward, Part::dense, sum_mid, sum_high,
            phase == Phase::forward ? "temporaries of one layer" : "gradients and temporaries of one block");
  if (vision.mid.count() > 0) out.terms.push_back(make_term(term::kVision, vision, "kept by the vision tower"));
  return out;
}

void add_phases(StageEstimate& stage, const MegatronSetup& run, const StageWalk& walk, const StaticMemory& memory) {
  const Range vision = stage.pipeline_rank == 0 ? vision_kept(run) : Range{};
  // Units of FSDP are gathered in the forward and the backward pass.
  StageWalk gathered = walk, reduced = walk, first_loss = walk;
  if (memory.unit_gradients > 0) {
    const auto term_of = [](double bytes, std::string note) {
      return make_term(term::kCommunication, Range::exact(bytes), std::move(note));
    };
    if (memory.unit > 0) {
      gathered.base.push_back(term_of(memory.unit, "gathered units of FSDP"));
      reduced.base.push_back(term_of(memory.unit, "gathered units of FSDP"));
      first_loss.base.push_back(term_of(memory.unit_loss, "gathered units of FSDP"));
    }
    // Each finished layer gives its activations back, and its gradients wait.
    const double layer = total(walk.mid.loss) / std::max(1.0, real(static_cast<Count>(stage.layers.size())));
    const double more = std::max(0.0, memory.waiting_unit - layer) * memory.waiting_units;
    reduced.base.push_back(term_of(memory.unit_gradients + more, "whole gradients before their reduction"));
  }
  const auto first = [&](const StageWalk& base, const Parts& mid, const Parts& high) {
    PhaseEstimate p = phase_of(Phase::first_step, base, mid, high, vision);
    for (Term& t : p.terms)
      if (t.name == term::kOptimizer) {
        const Bytes moments = Range::exact(memory.moments).mid;
        t.low -= moments, t.mid -= moments, t.high -= moments;
        t.note = "the moments do not exist before the first step ends";
      }
    return p;
  };
  PhaseEstimate init;
  init.phase = Phase::init;
  init.terms = {make_term(term::kWeights, Range::exact(memory.initial),
                          "weights, their copy in the shared buffer, and main gradients while the buffers are made")};
  stage.phases.push_back(std::move(init));
  PhaseEstimate in_loss = first(first_loss, walk.mid.loss, walk.high.loss), in_backward = first(reduced, walk.mid.backward, walk.high.backward);
  stage.phases.push_back(sum_of(in_loss.terms).mid > sum_of(in_backward.terms).mid ? std::move(in_loss) : std::move(in_backward));
  const auto add = [&](Phase phase, const Parts& mid, const Parts& high) {
    if (total(mid) > 0) stage.phases.push_back(phase_of(phase, phase == Phase::forward ? gathered : phase == Phase::loss ? walk : reduced, mid, high, vision));
  };
  add(Phase::forward, walk.mid.forward, walk.high.forward);
  const bool later = total(walk.mid.loss_backward) > total(walk.mid.loss);
  add(Phase::loss, later ? walk.mid.loss_backward : walk.mid.loss, later ? walk.high.loss_backward : walk.high.loss);
  add(Phase::backward, walk.mid.backward, walk.high.backward);
  PhaseEstimate step;
  step.phase = Phase::optimizer_step;
  step.terms = walk.base;
  if (walk.inputs > 0)
    step.terms.push_back(make_term(term::kCommunication, Range::exact(walk.inputs), "input of the last micro batch and its gradient, a chunk"));
  const double temporary = memory.step_temporary + memory.gradient_copy;
  if (temporary > 0)
    step.terms.push_back(make_term(term::kOptimizerStep, Range::exact(temporary),
                                   memory.step_temporary > 0 ? "temporary of torch's Adam, 4 bytes a parameter it steps"
                                                             : "fp32 copy of the gradients"));
  stage.phases.push_back(std::move(step));
}

StageEstimate stage_estimate(const MegatronSetup& run, Count rank) {
  const Stage& held = run.layout.stages[static_cast<std::size_t>(rank)];
  StageEstimate stage;
  stage.pipeline_rank = rank;
  for (const StageChunk& chunk : held.chunks) stage.layers.insert(stage.layers.end(), chunk.layers.begin(), chunk.layers.end());
  const RankParameters parameters = rank_parameters(run, held);
  stage.dense_parameters = static_cast<Count>(parameters.dense);
  stage.expert_parameters = static_cast<Count>(parameters.expert);
  const StaticMemory memory = static_memory(run, parameters);
  StageWalk walk;
  const double shard = run.distributed_optimizer || run.fsdp != Fsdp::none ? run.data_shard() : 1;
  walk.base = {
      make_term(term::kWeights, Range::exact(memory.weights),
                rounded(run.weight) + " bytes x " + rounded(parameters.dense + parameters.expert) + " parameters"),
      make_term(term::kGradients, Range::exact(memory.gradients), rounded(run.gradient) + " bytes a parameter"),
      make_term(term::kOptimizer,
                Range::of(memory.optimizer + memory.moments_low, memory.optimizer, memory.optimizer + memory.moments_high),
                rounded(run.master) + " + " + rounded(run.exp_avg + run.exp_avg_sq) + " bytes a parameter over " + rounded(shard) +
                    " ranks" + (run.offload > 0 ? ", the rest on the host" : ""))};
  for (Term& t : persistent_buffers(run, held)) walk.base.push_back(std::move(t));
  if (memory.gathered > 0)
    walk.base.push_back(make_term(term::kCommunication, Range::exact(memory.gathered), "parameters outside any unit stay gathered"));
  std::vector<ChunkCost> even, worst;
  const double factor = worst_imbalance(run);
  for (const StageChunk& chunk : held.chunks) {
    const double stated = std::min(run.imbalance, factor);
    even.push_back(chunk_cost(run, chunk, {stated, std::min(run.imbalance_peak, factor)}));
    worst.push_back(factor > stated ? chunk_cost(run, chunk, {factor}) : even.back());
  }
  walk.inputs = remembered_inputs(run, held);
  walk.mid = walk_schedule(run, rank, even);
  walk.high = factor > 1 ? walk_schedule(run, rank, worst) : walk.mid;
  add_phases(stage, run, walk, memory);
  stage.static_bytes = sum_of(walk.base).mid + Range::exact(memory.gradient_copy + memory.prefetched + walk.inputs + rebuilt_routing(run, held)).mid;
  return stage;
}

}  // namespace

parsers::Result<Estimate> estimate_megatron(const parsers::RunConfig& config) {
  Estimate out;
  out.model = "megatron";
  TRIAGE_TRY(const MegatronSetup run, megatron_setup(config, out.assumptions));
  if (run.shape.has_experts() && run.layout.expert > 1 && run.capacity == 0)
    assume(out.assumptions, "moe_imbalance",
           run.imbalance > 1 ? "experts of a rank receive more rows than the mean, as moe_imbalance says; the upper end is the worst that routing allows"
                             : "experts get equal shares; the upper end is the worst that routing allows");
  for (Count rank = 0; rank < run.layout.pipeline; ++rank) {
    StageEstimate stage = stage_estimate(run, rank);
    close_stage(stage, {});
    close_stage(stage, outside_terms(config, run.layout.world, stage.peak_allocated));
    out.stages.push_back(std::move(stage));
  }
  out.shape = run.shape;
  out.layout = run.layout;
  return out;
}

}  // namespace triage::signatures::memory
