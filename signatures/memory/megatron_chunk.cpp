#include "signatures/memory/megatron_chunk.hpp"

#include <algorithm>
#include <cmath>

namespace triage::signatures::memory {
namespace {

double real(Count n) { return static_cast<double>(n); }

// Tokens, labels and positions (8 bytes each), loss mask (4), and the attention mask as bytes where the loader makes one.
double batch_bytes(const MegatronSetup& run, const StageChunk& chunk) {
  if (!chunk.embedding && !chunk.loss) return 0;
  const Layout& l = run.layout;
  const double mask = run.attention_mask
                          ? real(l.micro_batch) * real(l.seq_length) * real(l.seq_length) / real(l.context)
                          : 0;
  return 28 * l.tokens() + mask;
}

// Which layers are one checkpoint: uniform groups, or the first layers of the chunk one by one.
std::vector<std::size_t> checkpoints(const MegatronSetup& run, std::size_t layers) {
  std::vector<std::size_t> groups;  // sizes; 0: an ordinary layer
  const RecomputeRules& r = run.recompute;
  std::size_t done = 0;
  if (r.kind == RecomputeRules::Kind::uniform) {
    while (done < layers) {
      const std::size_t n = std::min(layers - done, static_cast<std::size_t>(r.layers));
      groups.push_back(n);
      done += n;
    }
  } else {
    const std::size_t first = r.kind == RecomputeRules::Kind::block
                                  ? std::min(layers, static_cast<std::size_t>(r.layers))
                                  : 0;
    for (std::size_t i = 0; i < layers; ++i) groups.push_back(i < first ? 1 : 0);
  }
  return groups;
}

// Rows of each layer over the mean. The routers of layers differ: some layers are as bad as the worst, the last ones (their backward pass
// finds the most kept), the others share the rest, so that the mean stays what it is.
std::vector<double> layer_factors(const MegatronSetup& run, const StageChunk& chunk, Imbalance imbalance) {
  std::vector<double> factors(chunk.layers.size(), imbalance.factor);
  if (imbalance.peak <= imbalance.factor) return factors;
  double routed = 0;
  for (const Count i : chunk.layers) routed += run.shape.is_moe(i) ? 1 : 0;
  if (routed < 1) return factors;
  const double hot = std::clamp(std::floor(routed * (imbalance.factor - 1) / (imbalance.peak - 1)), 1.0, routed);
  const double rest = routed > hot ? std::max(0.0, (routed * imbalance.factor - hot * imbalance.peak) / (routed - hot)) : 0;
  double seen = 0;
  for (std::size_t i = chunk.layers.size(); i-- > 0;) {
    if (!run.shape.is_moe(chunk.layers[i])) continue;
    factors[i] = seen < hot ? imbalance.peak : rest;
    ++seen;
  }
  return factors;
}

// Output layer and loss. N logits: the linear layer's output (w N) and fp32 soft-max (4 N) worked on in place and saved; the native
// fusion keeps the fp32 logits beside it. Multi-token prediction runs output layer and loss once more a layer, each saving its own.
void loss_forward(const MegatronSetup& run, Arena& arena, double logits) {
  const double w = run.weight;
  arena.take(Part::logits, logits * w);
  if (run.loss_fusion == "native") {
    arena.take(Part::logits, logits * 8);
    arena.drop(Part::logits, logits * (4 + w));
  } else if (w < 4) {
    arena.take(Part::logits, logits * 4);
    arena.drop(Part::logits, logits * w);
  }
}

// waits: the gradient of the output matrix, tied to an embedding of the same chunk, is live until the embedding's arrives and the two are added
// (autograd keeps it with the tensor's accumulator).
void loss_backward(const MegatronSetup& run, Arena& arena, double logits, const LayerSizes& z, bool waits) {
  const double w = run.weight;
  if (w < 4) {
    arena.take(Part::logits, logits * w);
    arena.drop(Part::logits, logits * 4);
  }
  const double weight = run.grad_fusion ? 0 : real(run.padded_vocab) / real(run.layout.tensor) * real(run.shape.hidden) * w;
  arena.take(Part::transient, z.hidden_full + (run.layout.sequence_parallel ? z.hidden : 0));
  arena.take(Part::weight_gradient, weight);
  if (!waits) arena.drop(Part::weight_gradient, weight);
  arena.drop(Part::logits, logits * w);
  arena.drop(Part::transient, z.hidden_full - (run.layout.sequence_parallel ? 0 : z.hidden));
}

}  // namespace

ChunkCost chunk_cost(const MegatronSetup& run, const StageChunk& chunk, Imbalance imbalance) {
  ChunkCost cost;
  cost.receives = !chunk.embedding;
  cost.sends = !chunk.loss && run.layout.pipeline > 1;
  Arena arena;
  std::vector<Layer> layers;
  const std::vector<double> factors = layer_factors(run, chunk, imbalance);
  // The batch with its mask reaches the first and the last chunk of the pipeline only.
  const bool own_mask = !run.attention_mask || (!chunk.embedding && !chunk.loss);
  for (std::size_t i = 0; i < chunk.layers.size(); ++i)
    layers.emplace_back(run, run.shape.is_moe(chunk.layers[i]), Imbalance{factors[i]}, own_mask);
  const Layer plain(run, false, {});
  const LayerSizes& z = plain.sizes();
  const double batch = batch_bytes(run, chunk);
  arena.take(Part::dense, batch);
  // Input: embeddings, or what the stage before sent.
  const double mask = chunk.embedding && run.hidden_dropout > 0 ? z.hidden / run.weight : 0;
  if (chunk.embedding) arena.touch(Part::transient, z.hidden_full);
  const double input = run.recompute.distribute_saved && !run.layout.sequence_parallel
                           ? z.hidden / real(run.layout.tensor)
                           : z.hidden;
  arena.take(Part::dense, z.hidden + mask);
  const std::vector<std::size_t> groups = checkpoints(run, layers.size());
  std::size_t at = 0, done = 0;
  std::vector<double> offloaded(layers.size(), 0);
  for (const std::size_t group : groups) {
    const std::size_t n = std::max<std::size_t>(1, group);
    for (std::size_t i = 0; i < n; ++i, ++at) {
      if (group == 0) {
        const double before = arena.sum();
        layers[at].forward(arena);
        // Layers whose activations go to the host leave their output only.
        if (done < static_cast<std::size_t>(run.offload_layers)) {
          offloaded[at] = arena.sum() - before - z.hidden;
          arena.drop(Part::dense, offloaded[at]);
        }
      } else {
        layers[at].forward_only(arena);
        if (i > 0) arena.drop(Part::dense, z.hidden);  // only a group's input stays
      }
      ++done;
    }
    if (group > 0 && input < z.hidden) arena.drop(Part::dense, z.hidden - input);
  }
  cost.forward_top = arena.top();
  const double logits = run.layout.tokens() * real(run.padded_vocab) / real(run.layout.tensor);
  std::vector<Layer> ahead;
  for (Count i = 0; i < chunk.mtp_layers; ++i)
    ahead.emplace_back(run, run.shape.has_experts() && run.shape.is_moe(run.shape.layers - 1), Imbalance{imbalance.factor});
  arena.mark();
  for (const Layer& layer : ahead) {
    arena.take(Part::dense, 5 * z.hidden);  // two norms, their joined output, the projection's output
    layer.forward(arena);
    if (chunk.loss) loss_forward(run, arena, logits);
  }
  if (chunk.loss) {
    arena.take(Part::dense, z.hidden);  // final norm
    loss_forward(run, arena, logits);
    cost.loss_top = arena.top();
  }
  // What a stage has sent on is given back at once (deallocate_pipeline_outputs, set by the trainer).
  const bool sent = cost.sends;
  const bool waits = run.shape.tied && chunk.embedding && chunk.loss;
  if (sent) arena.drop(Part::dense, z.hidden);
  cost.kept = arena.live();
  arena.mark();
  if (chunk.loss) {
    loss_backward(run, arena, logits, z, waits);
    arena.drop(Part::dense, z.hidden);
    arena.take(Part::transient, z.hidden);
    arena.drop(Part::transient, z.hidden);
    cost.loss_backward_top = arena.top();
  } else {
    arena.take(Part::transient, 2 * z.hidden);  // gradient from the stage after, which the schedule holds on to, and the running one
  }
  arena.mark();
  for (std::size_t i = ahead.size(); i-- > 0;) {
    if (chunk.loss) loss_backward(run, arena, logits, z, false), arena.drop(Part::transient, z.hidden);
    arena.drop(Part::dense, z.hidden);
    ahead[i].backward(arena);
    arena.drop(Part::dense, 5 * z.hidden);
  }
  std::size_t last = layers.size();
  for (std::size_t g = groups.size(); g-- > 0;) {
    const std::size_t n = std::max<std::size_t>(1, groups[g]);
    // The group's output: its reader is done.
    if (!sent || g + 1 < groups.size()) arena.drop(Part::dense, z.hidden);
    if (groups[g] == 0) {
      arena.take(Part::dense, offloaded[last - 1]);
      layers[last - 1].backward(arena);
    } else {
      if (input < z.hidden) arena.take(Part::dense, z.hidden - input);
      for (std::size_t i = last - n; i < last; ++i) layers[i].forward(arena);
      // The last output is held by the checkpoint until the group is done.
      for (std::size_t i = last; i-- > last - n;) {
        if (i + 1 < last) arena.drop(Part::dense, z.hidden);
        layers[i].backward(arena);
      }
      arena.drop(Part::dense, z.hidden);
    }
    last -= n;
  }
  if (chunk.embedding) {
    const double weight = real(run.padded_vocab) / real(run.layout.tensor) * real(run.shape.hidden) * run.weight;
    arena.touch(Part::weight_gradient, weight + z.hidden_full);
  }
  cost.backward_top = arena.top();
  return cost;
}

}  // namespace triage::signatures::memory
