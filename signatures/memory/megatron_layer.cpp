#include "signatures/memory/megatron_layer.hpp"

#include <algorithm>

namespace triage::signatures::memory {
namespace {

double real(Count n) { return static_cast<double>(n); }

}  // namespace

// Sources, all NVIDIA/Megatron-LM@d98e8a6: megatron/core/transformer/attention.py, mlp.py,
// tensor_parallel/layers.py, models/common/embeddings/rope_utils.py.
LayerSizes::LayerSizes(const MegatronSetup& run) {
  const ModelShape& s = run.shape;
  const Layout& l = run.layout;
  const double w = run.weight, tokens = l.tokens(), t = real(l.tensor), h = real(s.hidden);
  hidden_full = tokens * h * w;
  hidden = hidden_full / real(l.sequence_split());
  const double heads = real(s.heads) / t, groups = std::max(real(s.kv_heads) / t, 1.0);
  const double d = real(s.head_dim);
  query = tokens * heads * d * w;
  key = tokens * groups * d * w;
  qkv = query + 2 * key;
  const double pairs = real(l.micro_batch) * heads * real(l.seq_length) * real(l.seq_length) / real(l.context);
  scores = pairs * w;
  softmax = pairs * (run.softmax_fp32 ? 4 : w);
  statistics = 4 * heads * tokens;
  rope_tables = run.rope && !run.rope_fusion ? 4 * (real(l.seq_length) / real(l.context)) * d * w : 0;
  const double wide = s.gated ? 2 : 1;
  act = tokens * real(s.ffn) / t * w;
  fc1 = wide * act;
  shared_act = tokens * real(s.shared_expert_ffn) / t * w;
  shared_fc1 = wide * shared_act;
  qkv_weight = (heads + 2 * groups) * d * h * w;
  out_weight = heads * d * h * w;
  fc2_weight = real(s.ffn) / t * h * w;
  fc1_weight = wide * fc2_weight;
  linear_input = run.fp8_compute ? 0.5 : 1;
  mask = real(l.seq_length) * real(l.seq_length) / real(l.context);
  expanded = !run.flash && groups < heads;
}

Layer::Layer(const MegatronSetup& run, bool moe, Imbalance imbalance, bool own_mask)
    : run_(run), size_(run), moe_(moe), imbalance_(imbalance),
      mask_(own_mask && !run.flash && !run.softmax_fusion ? size_.mask : 0) {}

void Layer::attention_forward(Arena& arena) const {
  const LayerSizes& z = size_;
  const bool normed = run_.shape.qk_norm, grouped = z.key < z.query;
  const bool checkpoint = run_.recompute.core_attention && !run_.flash;
  if (run_.layout.sequence_parallel && run_.te) arena.touch(Part::transient, z.hidden_full);
  arena.take(Part::dense, z.qkv);
  // With fewer key/value heads the queries are a strided slice that reshape copies; the copy lives until the attention returns.
  const double copy = grouped ? z.query : 0;
  arena.take(Part::transient, copy);
  arena.take(Part::transient, normed ? z.query + z.key : 0);
  arena.take(Part::dense, z.rope_tables);
  if (run_.rope) arena.take(Part::dense, z.query + z.key);
  if (run_.rope) arena.touch(Part::transient, run_.rope_fusion ? 0 : 2 * z.query);
  // A fused kernel wants contiguous values: with keys and queries new tensors they are copied.
  if (run_.flash) arena.take(Part::dense, z.key);
  core_forward(arena, !checkpoint);
  arena.take(Part::transient, z.hidden_full);  // output projection
  if (run_.layout.sequence_parallel) arena.touch(Part::transient, z.hidden);
  arena.drop(Part::transient, z.hidden_full + copy + (normed ? z.query + z.key : 0));
  if (normed) {
    // The norms save what went into them: the copied queries, and the keys, a slice of the whole projection.
    arena.take(Part::dense, copy);
  } else if (run_.flash || (z.expanded && !checkpoint)) {
    arena.drop(Part::dense, z.qkv);
  }
  if (z.expanded && !checkpoint && run_.rope) arena.drop(Part::dense, z.key);
  if (run_.flash && !run_.rope) arena.take(Part::dense, z.query + z.key);
}

void Layer::attention_forward_only(Arena& arena) const {
  const LayerSizes& z = size_;
  arena.take(Part::transient, z.qkv + (z.key < z.query ? z.query : 0));
  if (run_.rope) arena.take(Part::transient, z.query + z.key + z.rope_tables);
  if (!run_.flash) {
    core_forward(arena, false);
    arena.drop(Part::dense, z.query);
  }
  arena.take(Part::transient, z.query);
  arena.touch(Part::transient, z.hidden_full + (run_.layout.sequence_parallel ? z.hidden : 0));
  arena.drop(Part::transient, z.qkv + (z.key < z.query ? z.query : 0) + z.query +
                                  (run_.rope ? z.query + z.key + z.rope_tables : 0));
}

void Layer::attention_backward(Arena& arena) const {
  const LayerSizes& z = size_;
  const bool split = run_.layout.sequence_parallel, checkpoint = run_.recompute.core_attention && !run_.flash;
  const bool normed = run_.shape.qk_norm, grouped = z.key < z.query;
  // Output projection
  if (split) arena.take(Part::transient, z.hidden_full);
  arena.take(Part::transient, z.query);
  arena.take(Part::weight_gradient, wgrad(z.out_weight));
  arena.drop(Part::weight_gradient, wgrad(z.out_weight));
  if (split) arena.drop(Part::transient, z.hidden_full);
  arena.drop(Part::dense, z.query);  // context
  if (checkpoint) {
    core_forward(arena, true);
    core_backward(arena);
    arena.drop(Part::dense, z.query);  // the rebuilt context, held by the checkpoint
  } else {
    core_backward(arena);
  }
  // Queries, keys and values
  if (run_.flash) {
    arena.drop(Part::dense, z.query + 2 * z.key);
  } else {
    if (run_.rope) arena.drop(Part::dense, z.query);
    if (run_.rope && (!z.expanded || checkpoint)) arena.drop(Part::dense, z.key);
  }
  arena.drop(Part::dense, z.rope_tables);
  if (run_.rope) arena.touch(Part::transient, 2 * z.query);
  if (normed && grouped) arena.drop(Part::dense, z.query);
  arena.take(Part::transient, z.qkv);
  arena.drop(Part::transient, z.query + 2 * z.key);
  // Projection
  arena.take(Part::transient, z.hidden_full + (split ? z.hidden : 0));
  if (split && run_.te) arena.touch(Part::transient, z.hidden_full);
  arena.take(Part::weight_gradient, wgrad(z.qkv_weight));
  arena.drop(Part::weight_gradient, wgrad(z.qkv_weight));
  const bool kept_projection = normed || !(run_.flash || (z.expanded && !checkpoint));
  if (kept_projection) arena.drop(Part::dense, z.qkv);
  arena.drop(Part::transient, z.qkv + (split ? z.hidden_full : 0));
}

// Gate and up saved by the activation, their product by the second GEMM. Without the fused kernel the activation's value and the
// product's factor are saved too.
void Layer::mlp_forward(Arena& arena, double fc1, double act, bool keep) const {
  const LayerSizes& z = size_;
  const double unfused = run_.mlp_fusion || !run_.shape.gated ? 0 : act;
  arena.take(Part::dense, fc1);
  arena.take(Part::dense, act * z.linear_input + unfused);
  arena.touch(Part::transient, z.hidden_full + (run_.layout.sequence_parallel ? z.hidden : 0));
  if (!keep) arena.drop(Part::dense, fc1 + act * z.linear_input + unfused);
}

// Before: the gradient of the MLP's output (shared with the residual). After: the gradient of its input (hidden) beside it.
void Layer::mlp_backward(Arena& arena, double fc1, double act, double fc1_weight,
                         double fc2_weight) const {
  const LayerSizes& z = size_;
  const bool split = run_.layout.sequence_parallel;
  const double unfused = run_.mlp_fusion || !run_.shape.gated ? 0 : act;
  if (split) arena.take(Part::transient, z.hidden_full);
  arena.take(Part::transient, act);
  arena.take(Part::weight_gradient, wgrad(fc2_weight));
  arena.drop(Part::weight_gradient, wgrad(fc2_weight));
  if (split) arena.drop(Part::transient, z.hidden_full);
  arena.drop(Part::dense, act * z.linear_input);
  arena.take(Part::transient, fc1);
  arena.drop(Part::transient, act);
  arena.drop(Part::dense, fc1 + unfused);
  arena.take(Part::transient, z.hidden_full + (split ? z.hidden : 0));
  if (split && run_.te) arena.touch(Part::transient, z.hidden_full);
  arena.take(Part::weight_gradient, wgrad(fc1_weight));
  arena.drop(Part::weight_gradient, wgrad(fc1_weight));
  arena.drop(Part::transient, fc1 + (split ? z.hidden_full : 0));
}

void Layer::feed_forward(Arena& arena) const {
  const LayerSizes& z = size_;
  const RecomputeRules& r = run_.recompute;
  if (moe_)
    moe_forward(arena, true);
  else
    mlp_forward(arena, z.fc1, z.act, !(r.kind == RecomputeRules::Kind::selective && r.mlp));
}

// Residual stream: input norm, attention, add, norm, MLP or experts, add. Dropout keeps a mask of bytes.
void Layer::forward(Arena& arena) const {
  const LayerSizes& z = size_;
  const RecomputeRules& r = run_.recompute;
  const double mask = run_.hidden_dropout > 0 ? z.hidden / run_.weight : 0;
  // A norm that is a module of its own can be rebuilt; Transformer Engine fuses it into the linear layer that follows, but for
  // multi-latent attention and before experts.
  const bool drop1 = r.layernorm && (!run_.te || run_.shape.mla), drop2 = r.layernorm && (!run_.te || moe_);
  const double norm1 = z.hidden * (drop1 ? 1 : z.linear_input);
  const double norm2 = z.hidden * (moe_ || drop2 ? 1 : z.linear_input);
  arena.take(Part::dense, norm1);
  if (run_.shape.mla)
    mla_forward(arena, true);
  else
    attention_forward(arena);
  if (drop1) arena.drop(Part::dense, norm1);
  arena.take(Part::transient, z.hidden);
  arena.take(Part::dense, z.hidden + mask);  // sum after the attention
  arena.drop(Part::transient, z.hidden);
  arena.take(Part::dense, norm2);
  feed_forward(arena);
  if (drop2) arena.drop(Part::dense, norm2);
  arena.take(Part::transient, z.hidden);
  arena.take(Part::dense, z.hidden + mask);  // output
  arena.drop(Part::transient, z.hidden);
}

void Layer::forward_only(Arena& arena) const {
  const LayerSizes& z = size_;
  arena.take(Part::transient, z.hidden);  // norm
  if (run_.shape.mla)
    mla_forward(arena, false);
  else
    attention_forward_only(arena);
  arena.drop(Part::transient, z.hidden);
  arena.take(Part::transient, 3 * z.hidden);  // sum, norm, and the MLP's output
  if (moe_)
    moe_forward(arena, false);
  else
    mlp_forward(arena, z.fc1, z.act, false);
  arena.drop(Part::transient, 3 * z.hidden);
  arena.take(Part::dense, z.hidden);
}

void Layer::backward(Arena& arena) const {
  const LayerSizes& z = size_;
  const RecomputeRules& r = run_.recompute;
  const double mask = run_.hidden_dropout > 0 ? z.hidden / run_.weight : 0;
  const bool drop1 = r.layernorm && (!run_.te || run_.shape.mla), drop2 = r.layernorm && (!run_.te || moe_);
  const double norm1 = z.hidden * (drop1 ? 1 : z.linear_input);
  const double norm2 = z.hidden * (moe_ || drop2 ? 1 : z.linear_input);
  const double branch = mask > 0 ? z.hidden : 0;  // dropout's gradient is a tensor of its own
  arena.take(Part::transient, branch);
  arena.drop(Part::dense, mask);
  if (drop2) arena.take(Part::dense, norm2);
  if (moe_) {
    moe_backward(arena);
  } else if (r.kind == RecomputeRules::Kind::selective && r.mlp) {
    mlp_forward(arena, z.fc1, z.act, true);
    arena.take(Part::transient, z.hidden);  // its output, held by the checkpoint
    mlp_backward(arena, z.fc1, z.act, z.fc1_weight, z.fc2_weight);
    arena.drop(Part::transient, z.hidden);
  } else {
    mlp_backward(arena, z.fc1, z.act, z.fc1_weight, z.fc2_weight);
  }
  arena.drop(Part::transient, branch);
  arena.drop(Part::dense, norm2);
  arena.take(Part::transient, z.hidden);  // norm
  arena.drop(Part::transient, 2 * z.hidden);
  arena.drop(Part::dense, z.hidden + mask);  // sum after the attention
  arena.take(Part::transient, branch);
  if (drop1) arena.take(Part::dense, norm1);
  if (run_.shape.mla)
    mla_backward(arena);
  else
    attention_backward(arena);
  arena.drop(Part::transient, branch);
  arena.drop(Part::dense, norm1);
  arena.take(Part::transient, z.hidden);
  arena.drop(Part::transient, 2 * z.hidden);
}

}  // namespace triage::signatures::memory
