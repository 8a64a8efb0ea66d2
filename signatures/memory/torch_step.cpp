#include "signatures/memory/torch_step.hpp"

#include <algorithm>
#include <utility>

#include "signatures/memory/torch_model.hpp"
#include "signatures/memory/torch_optimizer.hpp"
#include "signatures/memory/torch_shard.hpp"

namespace triage::signatures::memory {

using tape::BlockRef;
using tape::Meter;
using tape::Tag;
using tape::Tape;

namespace {

// Mean of all second-matmul outputs and of attention that torchtitan's selective op mode keeps (distributed/activation_checkpoint.py:
// attention's output and every second matrix product).
Count selectively_kept(const TorchRun& run, const DecoderLayer& layer, Count tokens) {
  const ModelShape& s = run.shape;
  Count elements = layer.q.out + layer.v.out + layer.o.out;
  elements += layer.router ? s.hidden : layer.mlp.gate.out + layer.mlp.down.out;
  elements += s.heads * s.head_dim / run.tensor;
  return tokens * elements * run.compute_width;
}

class Step {
 public:
  Step(const TorchRun& run, Meter& meter)
      : run_(run), tape_(meter), model_(run, tape_), sharder_(run, tape_, model_) {}

  void run(StepResult& result);

 private:
  Tensor forward();
  Tensor hidden_states();
  void keep(Tag tag, Count bytes) { kept_.push_back(tape_.block(tag, bytes)); }

  const TorchRun& run_;
  Tape tape_;
  TorchModel model_;
  Sharder sharder_;
  std::vector<BlockRef> kept_;
};

Tensor Step::hidden_states() {
  const ModelShape& s = run_.shape;
  const int stream = run_.autocast > 0 ? run_.stored_width : run_.compute_width;
  tape_.section = Tag::activations;
  Tensor hidden;
  if (!run_.embedding) {
    // What the stage before has sent; its gradient is sent back.
    hidden = tape_.empty(model_.stream_rows * s.hidden, stream);
    hidden.node = tape_.record({}, {}, 1, [](Tape&, std::vector<Tensor>&) { return std::vector<Tensor>(); }, true);
    hidden.grad = true;
  } else {
    hidden = model_.ops().embedding(model_.stream_rows, s.hidden, *model_.embedding);
  }
  if (model_.learned_positions)
    hidden = model_.ops().add(hidden, model_.ops().embedding(run_.seq, s.hidden, *model_.learned_positions));
  std::vector<Tensor> deep;
  if (s.vision && s.vision->patches > 0 && !model_.blocks.empty()) {
    Tensor image = model_.vision(deep);
    // masked_scatter: a new tensor; its backward fills one and gathers the other
    const Count elements = hidden.elements, part = image.elements;
    const int width = hidden.width;
    const bool to_text = hidden.grad, to_image = image.grad;
    Tensor joined = tape_.empty(elements, width);
    joined.node = tape_.record({Tape::edge(hidden), Tape::edge(image)}, {}, 1,
                               [=](Tape& tape, std::vector<Tensor>& grads) {
                                 std::vector<Tensor> back(2);
                                 if (to_text) back[0] = tape.gradient(elements, width);
                                 if (to_image) back[1] = tape.gradient(part, width);
                                 grads.clear();
                                 return back;
                               });
    joined.grad = joined.node >= 0;
    hidden = std::move(joined);
  }
  const Count head_dim = s.mla ? s.mla->rope_dim : s.head_dim;
  if (!s.learned_positions)
    model_.tables = tape_.block(Tag::buffers, 2 * run_.seq * (s.vision ? run_.batch : 1) * head_dim * stream);
  if (run_.kernel == tape::AttentionKernel::eager)
    model_.mask = tape_.block(Tag::buffers, run_.batch * run_.seq * run_.seq * run_.context * stream);
  Tensor embedded = hidden;  // the program's variable lives as long as the model's forward
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    const auto layer = [this, i](Tape&, Tensor x) { return model_.decoder_layer(i, std::move(x)); };
    const bool again = run_.checkpoint && static_cast<Count>(i) % run_.checkpoint_every == 0;
    const Count extra = run_.selective_ops ? selectively_kept(run_, model_.layers[i], model_.tokens) : 0;
    Tensor next = model_.unit(model_.layers[i].unit, std::move(hidden), [&](Tensor x) {
      if (again) return tape_.checkpoint(x, layer, extra);
      return layer(tape_, std::move(x));
    });
    hidden = std::move(next);
    if (i < deep.size()) {
      hidden = model_.ops().add(hidden, deep[i]);
      deep[i] = {};
    }
  }
  if (!run_.head) return hidden;
  Tensor out = model_.norm(hidden, model_.stream_rows, model_.final_norm, model_.final_norm_bias);
  return run_.tensor > 1 ? model_.ops().gather(out, model_.tokens * s.hidden, 0) : std::move(out);
}

Tensor Step::forward() {
  tape_.meter().enter(Phase::forward);
  sharder_.before_forward();
  Tensor hidden = hidden_states();
  if (!run_.checkpoint) model_.mask.reset();  // a checkpointed layer keeps its arguments
  if (!run_.checkpoint) model_.tables.reset();
  if (!run_.head) return hidden;
  tape_.meter().enter(Phase::loss);
  return model_.loss(std::move(hidden));
}

void Step::run(StepResult& result) {
  Meter& meter = tape_.meter();
  result.expert_parameters = model_.expert_parameters;
  for (const Parameter& p : model_.parameters()) {
    result.parameters += p.elements;
    if (p.trainable) result.trainable += p.elements;
  }
  sharder_.persistent();
  keep(Tag::workspace, run_.workspace);  // of the forward thread
  keep(Tag::workspace, run_.workspace);  // of the backward thread
  const OptimizerBytes optimizer = optimizer_bytes(run_.optimizer, model_.parameters(), model_.embedding, sharder_.states_split());
  const bool on_host = run_.shard.offload_optimizer || (run_.shard.offload_parameters && run_.shard.kind != ShardKind::zero);
  result.optimizer_bytes = on_host ? 0 : optimizer.states;
  result.states_from_start = run_.optimizer.kind == OptimizerKind::adagrad;
  keep(Tag::optimizer, result.optimizer_bytes);
  result.rest = meter.live();
  result.at_rest = meter.by_tag();
  // FSDP1 with use_orig_params: zero_grad clears the views; the flat gradient stays until the next forward pass
  // (_runtime_utils.py, _reset_flat_param_grad_info_if_needed).
  if (run_.shard.kind == ShardKind::fsdp1 && run_.shard.original_parameters && !run_.shard.offload_parameters)
    result.rest += result.trainable / run_.shard.ranks * run_.stored_width;
  const BlockRef input = tape_.block(Tag::buffers, 2 * 8 * model_.tokens);

  if (run_.autocast > 0)
    tape_.rebuilt = [this] {
      for (Parameter& p : model_.parameters()) p.cast.reset();
    };
  std::vector<Tensor> roots;
  const Count rounds = run_.accumulation > 1 ? 2 : 1;
  for (Count round = 0; round < rounds; ++round) {
    roots.clear();
    for (Count i = 0; i < run_.in_flight; ++i) roots.push_back(forward());
    for (Parameter& p : model_.parameters()) p.cast.reset();  // autocast has ended
    if (round == 0) result.after_forward = meter.live();
    meter.enter(Phase::backward);
    for (Tensor& root : roots) {
      Tensor gradient = tape_.gradient(root.elements, root.width);
      Tensor seed = std::move(root);
      sharder_.before_backward();
      tape_.backward(seed, std::move(gradient));
      sharder_.after_backward();
    }
    model_.mask.reset();
  }
  roots.clear();
  meter.enter(Phase::optimizer_step);
  // ZeRO 1 and 2 make the fp32 gradient of their part here.
  Count temporary = on_host ? 0 : optimizer.temporary;
  if (run_.shard.kind == ShardKind::zero && !on_host) temporary = result.trainable / run_.shard.ranks * 4;
  const BlockRef step = tape_.block(Tag::optimizer_step, temporary);
}

}  // namespace

StepResult torch_step(const TorchRun& run) {
  StepResult result;
  Meter meter;
  {
    Step step(run, meter);
    step.run(result);
  }
  result.meter = meter;
  return result;
}

}  // namespace triage::signatures::memory
