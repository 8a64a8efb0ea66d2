// Estimate of Hugging Face and plain PyTorch programs: a step is run on a tape (torch_step) and its highest moments are told by term.
#include <algorithm>
#include <cstdio>

#include "parsers/base/quantity.hpp"
#include "signatures/memory/frameworks.hpp"
#include "signatures/memory/torch_run.hpp"
#include "signatures/memory/torch_step.hpp"

namespace triage::signatures::memory {

using parsers::RunConfig;
using tape::Meter;
using tape::Tag;

namespace {

std::string count_text(Count n) {
  char text[48];
  if (n >= 10'000'000)
    std::snprintf(text, sizeof text, "%.3f B", static_cast<double>(n) / 1e9);
  else
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(n));
  return text;
}

class Writer {
 public:
  Writer(const TorchRun& run, const StepResult& mid, const StepResult& high) : run_(run), mid_(mid), high_(high) {}

  PhaseEstimate phase(Phase phase) const {
    return write(phase, mid_.meter.peak(phase).by_tag, high_.meter.peak(phase).by_tag);
  }
  // The highest moment of the first step before its update: no states yet.
  PhaseEstimate first_step() const {
    Phase highest = Phase::forward;
    for (const Phase phase : {Phase::loss, Phase::backward})
      if (mid_.meter.peak(phase).bytes > mid_.meter.peak(highest).bytes) highest = phase;
    Meter::ByTag mid = mid_.meter.peak(highest).by_tag, high = high_.meter.peak(highest).by_tag;
    if (!mid_.states_from_start)
      for (auto* tags : {&mid, &high}) (*tags)[static_cast<std::size_t>(Tag::optimizer)] -= mid_.optimizer_bytes;
    return write(Phase::first_step, mid, high);
  }

 private:
  PhaseEstimate write(Phase phase, const Meter::ByTag& mid, const Meter::ByTag& high) const {
    PhaseEstimate out;
    out.phase = phase;
    for (std::size_t i = 0; i < tape::kTags; ++i) {
      if (mid[i] <= 0) continue;
      const double m = static_cast<double>(mid[i]), h = static_cast<double>(std::max(high[i], mid[i]));
      out.terms.push_back(make_term(tape::tag_name(static_cast<Tag>(i)), Range::of(m, m, h), note(static_cast<Tag>(i))));
    }
    out.allocated = sum_of(out.terms);
    return out;
  }

  std::string note(Tag tag) const {
    const ShardSetup& shard = run_.shard;
    const std::string ranks = shard.ranks > 1 && shard.kind != ShardKind::ddp ? " over " + std::to_string(shard.ranks) + " ranks" : "";
    switch (tag) {
      case Tag::weights:
        return count_text(mid_.parameters) + " parameters x " + std::to_string(run_.stored_width) + (shard.parameters ? ranks : "");
      case Tag::gradients: return count_text(mid_.trainable) + " trainable parameters" + ranks;
      case Tag::optimizer: return "states of the optimizer" + ranks;
      case Tag::activations:
        return std::to_string(run_.batch) + " x " + std::to_string(run_.seq) + " tokens, " +
               std::to_string(run_.last_layer - run_.first_layer) + " layers" + (run_.checkpoint ? ", inputs of layers only" : "");
      case Tag::moe: return std::to_string(run_.shape.experts_per_token) + " of " + std::to_string(run_.shape.experts) + " experts a token";
      case Tag::vision:
        return run_.shape.vision ? std::to_string(run_.shape.vision->patches) + " patches, " + std::to_string(run_.shape.vision->layers) + " blocks"
                                 : std::string();
      case Tag::logits:
        return std::to_string(run_.batch * run_.seq) + " tokens x " + std::to_string(run_.shape.vocab / run_.tensor) + " words";
      case Tag::backward: return "gradients of activations at the highest moment";
      case Tag::recompute: return "one layer rebuilt";
      case Tag::buffers: return "inputs, tables, masks";
      case Tag::workspace: return "cuBLAS workspaces and scratch of kernels";
      case Tag::communication:
        return shard.kind == ShardKind::ddp ? "buckets of gradients"
               : shard.kind == ShardKind::none ? "narrow copies of weights under autocast"
                                               : "gathered units, buckets";
      case Tag::optimizer_step: return "temporaries of the update";
    }
    return {};
  }

  const TorchRun& run_;
  const StepResult& mid_;
  const StepResult& high_;
};

StageEstimate one_stage(const RunConfig& config, const TorchRun& run, Count index) {
  const StepResult mid = torch_step(run);
  // Experts over several ranks: the hottest rank may get twice the mean.
  const bool uneven = run.expert > 1 && run.shape.has_experts();
  TorchRun hot = run;
  hot.routing = std::max(2.0, run.routing);
  const StepResult high = uneven ? torch_step(hot) : mid;
  const Writer writer(run, mid, high);
  StageEstimate stage;
  stage.pipeline_rank = index;
  for (Count i = run.first_layer; i < run.last_layer; ++i) stage.layers.push_back(i);
  stage.dense_parameters = mid.parameters - mid.expert_parameters;
  stage.expert_parameters = mid.expert_parameters;
  stage.static_bytes = Bytes(mid.rest);
  stage.phases.push_back(writer.phase(Phase::forward));
  if (run.head) stage.phases.push_back(writer.phase(Phase::loss));
  stage.phases.push_back(writer.phase(Phase::backward));
  stage.phases.push_back(writer.phase(Phase::optimizer_step));
  stage.phases.push_back(writer.first_step());
  Range peak;
  for (const PhaseEstimate& phase : stage.phases)
    if (phase.allocated.mid > peak.mid) peak = phase.allocated;
  close_stage(stage, outside_terms(config, run.world, peak));
  return stage;
}

}  // namespace

parsers::Result<Estimate> estimate_torch(const RunConfig& config) {
  Estimate out;
  TRIAGE_TRY(TorchRun run, torch_run(config, out.assumptions));
  out.model = run.program;
  out.shape = run.shape;
  Layout& layout = out.layout;
  layout.world = run.world;
  layout.tensor = run.tensor;
  layout.pipeline = run.pipeline;
  layout.context = run.context;
  layout.expert = run.expert;
  layout.data = std::max<Count>(1, run.world / (run.tensor * run.pipeline * run.context));
  layout.seq_length = run.seq * run.context;
  layout.micro_batch = run.batch;
  layout.microbatches = run.accumulation;
  // torchtitan splits the local batch into micro batches of one sample (pipeline_parallel_microbatch_size).
  const Count microbatches = run.pipeline > 1 ? run.batch : 1;
  if (run.pipeline > 1) run.batch = 1;
  const Count layers = run.shape.layers;
  for (Count i = 0; i < run.pipeline; ++i) {
    TorchRun part = run;
    part.first_layer = layers * i / run.pipeline;
    part.last_layer = layers * (i + 1) / run.pipeline;
    part.embedding = i == 0;
    part.head = i + 1 == run.pipeline;
    // 1F1B: warm-up and the running one. limit: at most 32 are simulated.
    part.in_flight = std::min<Count>({microbatches, run.pipeline - i, 32});
    Stage stage;
    StageChunk chunk;
    for (Count l = part.first_layer; l < part.last_layer; ++l) chunk.layers.push_back(l);
    chunk.embedding = part.embedding;
    chunk.loss = part.head;
    stage.chunks.push_back(std::move(chunk));
    layout.stages.push_back(std::move(stage));
    out.stages.push_back(one_stage(config, part, i));
  }
  return out;
}

}  // namespace triage::signatures::memory
