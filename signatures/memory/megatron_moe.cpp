#include <algorithm>

#include "signatures/memory/megatron_layer.hpp"

namespace triage::signatures::memory {
namespace {

double real(Count n) { return static_cast<double>(n); }

}  // namespace

// Every rank of an expert group may send all its rows to the same rank, as far as that one's experts can be chosen at all.
double worst_imbalance(const MegatronSetup& run) {
  const Layout& l = run.layout;
  if (!run.shape.has_experts() || l.expert <= 1 || run.capacity > 0) return 1;
  const double local = std::max(1.0, real(run.shape.experts) / real(l.expert));
  const double k = real(run.shape.experts_per_token);
  return std::max(1.0, std::min(k, local) * real(l.expert) / k);
}

// Rows: top-k of each local token; with a capacity, capacity x experts (padded) or at most that. Source: NVIDIA/Megatron-LM@d98e8a6:
// megatron/core/transformer/moe/token_dispatcher.py, moe_utils.py (permute, get_capacity), router.py.
MoeSizes::MoeSizes(const MegatronSetup& run, const LayerSizes& size, Imbalance imbalance) {
  const ModelShape& s = run.shape;
  const Layout& l = run.layout;
  const double w = run.weight, h = real(s.hidden), e = real(s.experts), k = real(s.experts_per_token);
  const double tokens = size.hidden / (h * w);
  // Router, per token and expert: logits, soft-max for the balancing loss (fp32), probabilities, map, the order of all entries (8
  // bytes; its first k rows are a view of it), and the order of the sent rows.
  router = tokens * (e * (2 * run.router_bytes + 4 + 1 + (run.permute_fusion ? 0 : 8)) + 16 * k);
  double share = k * imbalance.factor;
  if (run.pad_to_capacity) share = k * run.capacity;
  else if (run.capacity > 0) share = std::min(k * run.capacity, k * worst_imbalance(run));
  sent = tokens * (run.pad_to_capacity ? k * run.capacity : k) * h * w;
  received = tokens * share * h * w;
  rows = received * real(l.expert_tensor);
  const double width = real(s.expert_ffn) / real(l.expert_tensor), wide = s.gated ? 2 : 1;
  act = rows / h * width;
  fc1 = wide * act;
  experts = std::max(1.0, e / real(l.expert));
  const double together = run.grouped ? experts : 1;
  fc2_weight = together * width * h * w;
  fc1_weight = wide * fc2_weight;
  sorts = experts > 1;
}

// Alltoall: rows are picked (sent), exchanged (received, only across ranks), gathered over expert tensor ranks, sorted by expert; gate
// and up, product; outputs are joined, sorted back, exchanged, added up. Kept: the sorted rows, gate and up, product. The names of the
// program hold sent and received rows until the layer returns.
void Layer::moe_forward(Arena& arena, bool keep) const {
  const MoeSizes m(run_, size_, imbalance_);
  const LayerSizes& z = size_;
  const RecomputeRules& r = run_.recompute;
  const bool selective = r.kind == RecomputeRules::Kind::selective;
  const bool all = keep && selective && r.moe;  // the whole layer is a checkpoint
  const bool holds = keep && !all;
  const double shared_kept = holds && z.shared_act > 0 && !(selective && r.shared_experts)
                                 ? z.shared_fc1 + z.shared_act
                                 : 0;
  if (z.shared_act > 0) {
    arena.take(Part::moe, z.shared_fc1 + z.shared_act);
    arena.drop(Part::moe, z.shared_fc1 + z.shared_act - shared_kept);
    arena.take(Part::transient, z.hidden);
    // shared_experts.py: the output before the gate is kept beside the product.
    if (run_.shared_gate && holds) arena.take(Part::moe, z.hidden);
  }
  arena.take(Part::moe, m.router);
  const bool exchanged = run_.layout.expert > 1;
  double held = 0;  // by names of the program
  if (run_.dispatcher == "allgather" && exchanged) {
    // Hidden states of all ranks of the expert group are gathered, then the local rows picked.
    held = z.hidden * real(run_.layout.expert) * real(run_.layout.expert_tensor);
    arena.take(Part::transient, held);
  } else {
    const double sent = exchanged || m.sorts || run_.layout.expert_tensor > 1 ? m.sent : 0;
    arena.take(Part::transient, sent);
    held = sent;
    if (exchanged) {
      arena.take(Part::transient, m.received);
      held += m.received;
    }
    if (run_.layout.expert_tensor > 1) {
      if (m.sorts) arena.take(Part::transient, m.rows), held += m.rows;
    }
    if (!m.sorts && exchanged) arena.drop(Part::transient, m.received), held -= m.received;
  }
  const double input = m.rows * z.linear_input, product = m.act * z.linear_input;
  arena.take(Part::moe, input);
  arena.take(Part::moe, m.fc1);
  arena.take(Part::moe, product);
  if (keep && selective && r.moe_act) arena.drop(Part::moe, product);
  arena.take(Part::transient, m.rows);                  // outputs of the experts
  if (m.sorts) arena.touch(Part::transient, m.rows);    // joined; sorted back
  if (exchanged) arena.touch(Part::transient, m.sent);  // sent back
  arena.drop(Part::transient, m.rows);
  arena.touch(Part::transient, m.sent + z.hidden);      // added up
  arena.drop(Part::transient, held + (z.shared_act > 0 ? z.hidden : 0));
  if (!holds) {
    const double kept_product = keep && selective && r.moe_act ? 0 : product;
    arena.drop(Part::moe, m.router + input + m.fc1 + kept_product);
  }
}

void Layer::moe_backward(Arena& arena) const {
  const MoeSizes m(run_, size_, imbalance_);
  const LayerSizes& z = size_;
  const RecomputeRules& r = run_.recompute;
  const bool selective = r.kind == RecomputeRules::Kind::selective, rebuilt = selective && r.moe;
  const bool exchanged = run_.layout.expert > 1, gathered = run_.layout.expert_tensor > 1;
  const double input = m.rows * z.linear_input, product = m.act * z.linear_input;
  if (rebuilt) {
    MegatronSetup once = run_;
    once.recompute.moe = false;
    const Layer layer(once, true, imbalance_);
    layer.moe_forward(arena, true);
    arena.take(Part::transient, z.hidden);  // its output, held by the checkpoint
  }
  // Shared experts first in the forward pass, last in the backward one.
  // Sum over experts -> rows; exchanged; sorted.
  arena.take(Part::transient, m.sent);
  if (exchanged) {
    arena.take(Part::transient, m.received);
    arena.drop(Part::transient, m.sent);
  }
  const double before = exchanged ? m.received : m.sent;
  if (gathered) {
    arena.take(Part::transient, m.rows);
    arena.drop(Part::transient, before);
  }
  double grad = gathered ? m.rows : before;
  if (m.sorts) {
    arena.take(Part::transient, m.rows);
    arena.drop(Part::transient, grad);
    grad = m.rows;
  }
  if (selective && r.moe_act) arena.take(Part::moe, product);
  // Experts: one after the other, or all at once. The gradients of their inputs add up while what they kept goes.
  const double steps = run_.grouped ? 1 : m.experts;
  const double rows = m.rows / steps, fc1 = m.fc1 / steps, act = m.act / steps;
  for (double i = 0; i < steps; ++i) {
    arena.take(Part::transient, act);
    arena.touch(Part::weight_gradient, wgrad(m.fc2_weight));
    arena.drop(Part::moe, product / steps);
    arena.take(Part::transient, fc1);
    arena.drop(Part::transient, act);
    arena.drop(Part::moe, fc1);
    arena.take(Part::transient, rows);
    arena.touch(Part::weight_gradient, wgrad(m.fc1_weight));
    arena.drop(Part::transient, fc1);
  }
  arena.drop(Part::moe, input);
  arena.drop(Part::transient, grad);
  if (m.sorts && !run_.grouped) arena.touch(Part::transient, m.rows);  // slices joined
  if (m.sorts) arena.touch(Part::transient, m.rows);                  // sorted back
  if (exchanged) {
    arena.touch(Part::transient, m.sent);
    arena.drop(Part::transient, m.rows);
    arena.take(Part::transient, m.sent);
  }
  const double last = exchanged ? m.sent : m.rows;
  arena.take(Part::transient, z.hidden);  // gradient of the layer's input
  arena.drop(Part::transient, last);
  arena.touch(Part::transient, z.hidden);  // through the router
  arena.drop(Part::moe, m.router);
  if (z.shared_act > 0) {
    const double weight = z.fc2_weight * (z.act > 0 ? z.shared_act / z.act : 0), wide = z.shared_fc1 / z.shared_act;
    const bool again = selective && r.shared_experts && !rebuilt;
    if (again) arena.take(Part::moe, z.shared_fc1 + z.shared_act);
    if (run_.shared_gate) arena.drop(Part::moe, z.hidden);
    arena.take(Part::transient, z.shared_act + z.hidden_full);
    arena.touch(Part::weight_gradient, wgrad(weight));
    arena.drop(Part::transient, z.hidden_full);
    arena.drop(Part::moe, z.shared_act);
    arena.take(Part::transient, z.shared_fc1);
    arena.drop(Part::transient, z.shared_act);
    arena.drop(Part::moe, z.shared_fc1);
    arena.touch(Part::transient, z.hidden_full);
    arena.touch(Part::weight_gradient, wgrad(wide * weight));
    arena.drop(Part::transient, z.shared_fc1);
  }
  if (rebuilt) arena.drop(Part::transient, z.hidden);
}

// The dispatcher remembers probabilities (fp32), map and order of the last micro batch.
double Layer::remembered() const {
  if (!moe_) return 0;
  const LayerSizes& z = size_;
  const double tokens = z.hidden / (real(run_.shape.hidden) * run_.weight);
  return tokens * (5 * real(run_.shape.experts) + 8 * real(run_.shape.experts_per_token));
}

}  // namespace triage::signatures::memory
