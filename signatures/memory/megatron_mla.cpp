#include "signatures/memory/megatron_layer.hpp"

namespace triage::signatures::memory {
namespace {

double real(Count n) { return static_cast<double>(n); }

struct MlaSizes {
  double down;            // compressed queries, keys/values and the rotary key, before and after their norms
  double up;              // expanded queries, keys and values as attention saves them
  double output;          // of the attention
  double down_weight, up_weight;
};

// Down projections are not split by tensor parallel; up projections and heads are. Source: NVIDIA/Megatron-LM@d98e8a6:
// megatron/core/transformer/multi_latent_attention.py.
MlaSizes mla_sizes(const MegatronSetup& run) {
  const MlaShape& m = *run.shape.mla;
  const double tokens = run.layout.tokens(), w = run.weight;
  const double part = tokens / real(run.layout.sequence_split());
  const double heads = real(run.shape.heads) / real(run.layout.tensor), h = real(run.shape.hidden);
  const double qk = real(m.nope_dim + m.rope_dim), v = real(m.v_dim);
  MlaSizes z{};
  z.down = part * (2 * real(m.q_rank) + 2 * real(m.kv_rank) + real(m.rope_dim)) * w;
  z.up = tokens * heads * (2 * qk + v) * w;
  z.output = tokens * heads * v * w;
  z.down_weight = h * (real(m.q_rank) + real(m.kv_rank + m.rope_dim)) * w;
  z.up_weight = (real(m.q_rank > 0 ? m.q_rank : run.shape.hidden) * qk +
                 real(m.kv_rank) * (real(m.nope_dim) + v)) * heads * w;
  return z;
}

}  // namespace

void Layer::mla_forward(Arena& arena, bool keep) const {
  const MlaSizes m = mla_sizes(run_);
  const double statistics = size_.statistics;
  arena.take(Part::dense, m.down);
  arena.take(Part::dense, m.up);
  arena.touch(Part::transient, m.up);  // parts before they are put together
  if (!run_.flash) arena.take(Part::dense, size_.scores), arena.touch(Part::transient, size_.scores);
  arena.take(Part::dense, m.output + statistics);
  arena.touch(Part::transient, size_.hidden_full);
  if (!keep) {
    arena.drop(Part::dense, m.down + m.up + m.output + statistics);
    if (!run_.flash) arena.drop(Part::dense, size_.scores);
  } else if (run_.recompute.mla_up) {
    arena.drop(Part::dense, m.up);
  }
}

void Layer::mla_backward(Arena& arena) const {
  const MlaSizes m = mla_sizes(run_);
  if (run_.recompute.mla_up) arena.take(Part::dense, m.up);
  arena.take(Part::transient, m.output);
  arena.touch(Part::weight_gradient, wgrad(size_.out_weight));
  arena.take(Part::transient, m.up);  // gradients of queries, keys and values
  arena.touch(Part::transient, 2 * m.up);
  if (!run_.flash) {
    arena.touch(Part::transient, 3 * size_.scores);
    arena.drop(Part::dense, size_.scores);
  }
  arena.drop(Part::dense, m.output + size_.statistics + m.up);
  arena.drop(Part::transient, m.output);
  arena.take(Part::transient, m.down);
  arena.touch(Part::weight_gradient, wgrad(m.up_weight));
  arena.drop(Part::transient, m.up);
  arena.take(Part::transient, size_.hidden);
  arena.touch(Part::weight_gradient, wgrad(m.down_weight));
  arena.drop(Part::transient, m.down);
  arena.drop(Part::dense, m.down);
}

}  // namespace triage::signatures::memory
