#include "signatures/memory/megatron_static.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "signatures/memory/megatron_layer.hpp"

namespace triage::signatures::memory {
namespace {

double real(Count n) { return static_cast<double>(n); }

double padded(double elements, double ranks) {
  // NVIDIA/Megatron-LM@d98e8a6: megatron/core/optimizer/param_layout.py: ends of buckets are multiples of lcm(ranks, 128).
  const Count n = std::max<Count>(1, static_cast<Count>(ranks));
  Count a = n, b = 128;
  while (b != 0) {
    const Count rest = a % b;
    a = b;
    b = rest;
  }
  const double unit = real(n / a) * 128;
  return std::ceil(elements / unit) * unit;
}

struct LayerShare {
  double dense = 0, expert = 0;
};

LayerShare layer_share(const MegatronSetup& run, bool moe) {
  const ModelShape& s = run.shape;
  const double t = real(run.layout.tensor);
  const ParameterCount count = layer_parameters(s, moe);
  LayerShare share;
  share.dense = real(count.tensor) / t + real(count.replicated);
  // Key/value heads are not split further than one a rank.
  if (!s.mla && real(s.kv_heads) < t)
    share.dense += 2 * real(s.hidden) * real(s.head_dim) * (1 - real(s.kv_heads) / t);
  share.expert = real(count.expert) / real(run.layout.expert) / real(run.layout.expert_tensor);
  return share;
}

// Megatron FSDP that shards parameters. A unit is a layer; embedding, output layer and final norm are one bucket outside any unit: once
// gathered it stays, and its gradients live until the backward pass has reached the embedding. Units are gathered ahead until half a
// billion elements are reached, at the end of a step already for the next one; finished gradients may wait for their reduction up to a
// billion elements. Source: NVIDIA/Megatron-LM@d98e8a6: megatron/core/distributed/fsdp/src/megatron_fsdp/{megatron_fsdp,
// param_and_grad_buffer}.py (suggested_communication_unit_size, all_gather_params).
void add_units(const MegatronSetup& run, const RankParameters& p, double gradient, StaticMemory& m) {
  if (run.fsdp != Fsdp::optim_grads_params || p.largest_unit <= 0) return;
  const double unit = p.largest_unit, waiting = std::max(1e9, 2 * unit);
  const double count = std::max(1.0, (p.dense + p.expert - p.outside) / unit);
  const double ahead = std::min(std::ceil(waiting / 2 / unit), count - 1);
  m.gathered = p.outside * run.weight;
  m.prefetched = std::min(ahead, count) * unit * run.weight;
  m.unit = (1 + ahead) * unit * run.weight;
  m.unit_gradients = unit * gradient + p.outside * gradient;
  m.waiting_unit = unit * gradient;
  m.waiting_units = std::min(std::floor(waiting / unit), count - 1);
}

}  // namespace

RankParameters rank_parameters(const MegatronSetup& run, const Stage& stage) {
  const ModelShape& s = run.shape;
  const double t = real(run.layout.tensor), h = real(s.hidden), norm = s.layernorm ? 2 : 1;
  const double table = real(run.padded_vocab) * h / t;
  RankParameters p;
  const auto add = [&](bool moe) {
    const LayerShare share = layer_share(run, moe);
    p.dense += share.dense;
    p.expert += share.expert;
    p.largest_unit = std::max(p.largest_unit, share.dense + share.expert);
  };
  for (const StageChunk& chunk : stage.chunks)
    for (const Count i : chunk.layers) add(s.is_moe(i));
  const Count ahead = stage.mtp_layers();
  for (Count i = 0; i < ahead; ++i) {
    add(s.has_experts() && s.is_moe(s.layers - 1));
    p.dense += 2 * h * h / t + 3 * norm * h;  // joins the hidden state with the next token's embedding
  }
  if (stage.embedding()) p.outside += table + real(s.learned_positions) * h;
  if (stage.loss()) {
    p.outside += norm * h;
    if (!s.tied || (run.layout.pipeline > 1 && !stage.embedding())) p.outside += table;
  }
  if (ahead > 0 && !stage.embedding()) p.outside += table;
  p.dense += p.outside;
  p.linear = p.dense - p.outside + p.expert;
  if (s.frozen) p.frozen = p.dense;
  if (s.vision && stage.embedding()) {
    const double tower = real(vision_parameters(*s.vision, s.hidden));
    p.dense += tower;
    if (s.vision->frozen) p.frozen += tower;
  }
  return p;
}

// Bytes a parameter: weight, main gradient, master, moments; states over the ranks that share them. Sources: NVIDIA/Megatron-LM@d98e8a6:
// megatron/core/distributed/param_and_grad_buffer.py, optimizer/{optimizer,distrib_optimizer}.py,
// optimizer/cpu_offloading/hybrid_optimizer.py.
StaticMemory static_memory(const MegatronSetup& run, const RankParameters& p) {
  StaticMemory m;
  const double state = run.exp_avg + run.exp_avg_sq;
  const bool shards = run.distributed_optimizer || run.fsdp != Fsdp::none;
  // Megatron FSDP keeps main gradients in the dtype of the model (megatron_fsdp_main_grads_dtype auto); the optimizer gets fp32 copies.
  const double gradient = run.fsdp == Fsdp::none ? run.gradient : std::min(run.gradient, run.weight);
  const bool copied = run.gradient_copy || gradient < std::min(run.gradient, 4.0);
  const auto add = [&](double elements, double ranks) {
    if (elements <= 0) return;
    const double all = shards ? padded(elements, ranks) : elements;
    const double share = shards ? all / ranks : all;
    const double weights = run.fsdp == Fsdp::optim_grads_params ? share : all;
    const double gradients = run.fsdp >= Fsdp::optim_grads ? share : all;
    m.weights += weights * run.weight;
    m.gradients += gradients * gradient;
    const double on_device = 1 - run.offload;
    m.moments += share * state * on_device;
    m.optimizer += share * (state * on_device + run.master * (run.offload_master ? on_device : 1.0));
    if (copied) m.gradient_copy += share * 4;
    if (!run.fused_adam) m.step_temporary += share * 4;
    m.initial += elements * run.weight + (shards ? all * run.weight : 0) + gradients * gradient;
  };
  add(p.dense - p.frozen, run.data_shard());
  add(p.expert, run.expert_shard());
  m.weights += p.frozen * run.weight;
  m.initial += p.frozen * run.weight;
  add_units(run, p, gradient, m);
  if (run.fp8_weight > 0) m.weights += p.linear * (run.fp8_weight - run.weight);
  return m;
}

std::vector<Term> persistent_buffers(const MegatronSetup& run, const Stage& stage) {
  std::vector<Term> terms;
  const Layer layer(run, false, {});
  const LayerSizes& z = layer.sizes();
  const double scores = run.flash ? 0 : z.scores;
  const double gather = run.layout.sequence_parallel ? z.hidden_full : 0;
  double tables = 0;
  if (run.rope && !run.shape.mla) tables += 4 * real(run.layout.seq_length) * real(run.shape.head_dim);
  // A stage that gets no mask makes a causal one and remembers it.
  if (!run.flash && !run.softmax_fusion && !(run.attention_mask && (stage.embedding() || stage.loss())))
    tables += real(run.layout.seq_length) * real(run.layout.seq_length);
  double routing = 0;
  for (const StageChunk& chunk : stage.chunks)
    for (const Count i : chunk.layers) routing += Layer(run, run.shape.is_moe(i), {}).remembered();
  // Full recompute: the last routing's graph holds each checkpoint's input and its gradient.
  const RecomputeRules& r = run.recompute;
  if (run.shape.has_experts() && (r.kind == RecomputeRules::Kind::uniform || r.kind == RecomputeRules::Kind::block)) {
    const double layers = real(stage.layers());
    const double groups = r.kind == RecomputeRules::Kind::uniform
                              ? std::ceil(layers / real(r.layers))
                              : std::min(layers, real(r.layers) * real(static_cast<Count>(stage.chunks.size())));
    routing += groups * 2 * z.hidden;
  }
  double dummy = 0;
  if (run.te && run.grad_fusion) {
    // One dummy a shape of weight: the real gradient goes into the main gradient.
    dummy = z.qkv_weight + z.out_weight + (run.shape.moe_layers() < run.shape.layers ? z.fc1_weight + z.fc2_weight : 0);
    if (run.shape.has_experts()) {
      const MoeSizes moe(run, z, {});
      const double one = run.grouped ? moe.experts : 1;
      dummy += (moe.fc1_weight + moe.fc2_weight) / std::max(1.0, one);
    }
    if (stage.loss()) dummy += real(run.padded_vocab) / real(run.layout.tensor) * real(run.shape.hidden) * run.weight;
  }
  terms.push_back(make_term(term::kBuffers, Range::exact(std::max(scores, gather) + tables + routing + dummy),
                            scores > 0     ? "score buffer of unfused attention, tables"
                            : gather > 0   ? "gather buffer of sequence parallel, tables, dummy gradients"
                                           : "tables, dummy gradients"));
  // cuBLAS: 32 MiB on Hopper and newer, of the forward and of the backward thread (CUBLAS_WORKSPACE_CONFIG).
  terms.push_back(make_term(term::kWorkspace, Range::of(16.0 * 1048576, 64.0 * 1048576, 96.0 * 1048576),
                            "cuBLAS workspaces of two threads, 32 MiB each on Hopper"));
  return terms;
}

}  // namespace triage::signatures::memory
