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

// Buckets of what stands outside units: one, or with overlap_grad_reduce closed as soon as they hold the bucket size (training.py,
// resolve_ddp_bucket_size; param_and_grad_buffer.py, _get_parameter_groups).
std::vector<double> outside_buckets(const MegatronSetup& run, const RankParameters& p) {
  const double least = run.ddp_bucket > 0 ? run.ddp_bucket : std::max(4e7, 1e6 * real(run.layout.data * run.layout.context));
  std::vector<double> buckets;
  bool open = false;
  for (const double size : p.outside_order) {
    if (!open) buckets.push_back(0);
    buckets.back() += size;
    open = !run.overlap_grad_reduce || buckets.back() < least;
  }
  return buckets;
}

// Megatron FSDP that shards gradients (optim_grads) or parameters too. A unit is a layer; embedding, output layer and final norm stand
// outside any unit: once gathered they stay. Units are gathered ahead until half a billion elements are reached: in the forward pass, in
// the backward pass, and at the end of a step from the embedding's bucket on, other buckets outside units first. Modules outside units do
// so in the first step only, for their state is never set back (_pre_forward_param_unshard). Gradients of a bucket outside units are there
// from its first one to its last; finished ones may wait for their reduction up to a billion elements. Source:
// NVIDIA/Megatron-LM@d98e8a6: megatron/core/distributed/fsdp/src/megatron_fsdp/{megatron_fsdp,param_and_grad_buffer}.py
// (suggested_communication_unit_size, all_gather_params, reduce_gradients).
void add_units(const MegatronSetup& run, const RankParameters& p, double gradient, StaticMemory& m) {
  if (run.fsdp < Fsdp::optim_grads || p.largest_unit <= 0) return;
  const double unit = p.largest_unit, waiting = std::max(1e9, 2 * unit), count = std::max(1.0, (p.dense + p.expert - p.outside) / unit);
  const auto ahead = [&](double before, double units) {
    return std::clamp(std::ceil((waiting / 2 - before) / unit), 0.0, std::max(0.0, units)) * unit * run.weight;
  };
  const std::vector<double> buckets = outside_buckets(run, p);
  if (run.fsdp == Fsdp::optim_grads_params) {
    m.gathered = p.outside * run.weight;
    m.prefetched = ahead(buckets.empty() ? 0 : p.outside - buckets.front(), count);
    m.unit = unit * run.weight + ahead(0, count - 1);
    m.unit_loss = ahead(0, count);
  }
  // In the backward pass of the layers nothing of the embedding's bucket has come, where that is one of several.
  m.unit_gradients = unit * gradient + (p.outside - (buckets.size() > 1 ? buckets.front() : 0)) * gradient;
  m.waiting_unit = unit * gradient;
  m.waiting_units = std::min(std::floor(waiting / unit), count - 1);
}

}  // namespace

namespace {

std::vector<double> buffer_order(const MegatronSetup& run, const Stage& stage) {
  const ModelShape& s = run.shape;
  const double t = real(run.layout.tensor), h = real(s.hidden);
  const double table = real(run.padded_vocab) * h / t;
  const LayerSizes z(run);
  std::vector<double> order;
  if (stage.loss() && (!s.tied || !stage.embedding())) order.push_back(table);
  for (std::size_t c = stage.chunks.size(); c-- > 0;) {
    const auto& layers = stage.chunks[c].layers;
    for (std::size_t i = layers.size(); i-- > 0;) {
      const double attention = (z.qkv_weight + z.out_weight) / run.weight;
      const double all = layer_share(run, s.is_moe(layers[i])).dense;
      if (s.mla || s.is_moe(layers[i])) {
        if (s.is_moe(layers[i]) && run.experts_in_dense_buffer()) {
          const double one = layer_share(run, true).expert / real(s.experts);
          const double second = one / (s.gated ? 3 : 2);
          for (Count e = 0; e < s.experts; ++e) order.push_back(second), order.push_back(one - second);
        }
        order.push_back(all);  // limit: not split into its matrices
        continue;
      }
      const double mlp = all - attention, second = z.fc2_weight / run.weight;
      for (const double size : {second, mlp - second, z.qkv_weight / run.weight, z.out_weight / run.weight}) order.push_back(size);
    }
  }
  if (stage.embedding()) order.push_back(table);
  return order;
}

// The share of a data rank's optimizer states that go to the host. Whole parameters are offloaded, in the order of the buffer, until the
// fraction is reached; a rank's shard is one slice of the buffer, so a rank whose slice is one parameter offloads all of it. Source:
// NVIDIA/Megatron-LM@d98e8a6: megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py (_get_sub_optimizer_param_groups).
double offloaded_share(const MegatronSetup& run, const std::vector<double>& order, double rank, double ranks) {
  double sum = 0;
  for (const double size : order) sum += size;
  if (sum <= 0) return run.offload;
  const double from = sum / ranks * rank, to = sum / ranks * (rank + 1);
  double at = 0, moved = 0;
  for (const double size : order) {
    const double piece = std::min(at + size, to) - std::max(at, from);
    at += size;
    if (piece <= 0) continue;
    if (moved >= run.offload * (to - from)) break;
    moved += piece;
  }
  return std::clamp(moved / (to - from), 0.0, 1.0);
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
  p.order = buffer_order(run, stage);
  const Count ahead = stage.mtp_layers();
  for (Count i = 0; i < ahead; ++i) {
    add(s.has_experts() && s.is_moe(s.layers - 1));
    p.dense += 2 * h * h / t + 3 * norm * h;  // joins the hidden state with the next token's embedding
  }
  const auto outside = [&](double size) {
    if (size > 0) p.outside_order.push_back(size);
    p.outside += size;
  };
  if (stage.embedding() || ahead > 0) outside(table);
  if (stage.embedding()) outside(real(s.learned_positions) * h);
  if (stage.loss()) {
    outside(norm * h);
    if (!s.tied || (run.layout.pipeline > 1 && !stage.embedding())) outside(table);
  }
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
  const auto add = [&](double elements, double ranks, double offload) {
    if (elements <= 0) return;
    const double all = shards ? padded(elements, ranks) : elements;
    const double share = shards ? all / ranks : all;
    const double weights = run.fsdp == Fsdp::optim_grads_params ? share : all;
    const double gradients = run.fsdp >= Fsdp::optim_grads ? share : all;
    m.weights += weights * run.weight;
    m.gradients += gradients * gradient;
    const double on_device = 1 - offload;
    m.moments += share * state * on_device;
    m.optimizer += share * (state * on_device + run.master * (run.offload_master ? on_device : 1.0));
    if (copied) m.gradient_copy += share * 4;
    if (!run.fused_adam) m.step_temporary += share * 4;
    m.initial += elements * run.weight + (shards ? all * run.weight : 0) + gradients * gradient;
  };
  double offload = run.offload, least = offload, most = offload;
  if (run.offload > 0 && run.offload < 1 && shards && !run.overlap_grad_reduce) {
    const double ranks = run.data_shard();
    offload = least = most = offloaded_share(run, p.order, 0, ranks);
    for (double rank = 1; rank < std::min(ranks, 4096.0); ++rank) {
      const double share = offloaded_share(run, p.order, rank, ranks);
      least = std::min(least, share);
      most = std::max(most, share);
    }
  }
  const double joined = p.dense - p.frozen + (run.experts_in_dense_buffer() ? p.expert : 0);
  add(joined, run.data_shard(), offload);
  if (!run.experts_in_dense_buffer()) add(p.expert, run.expert_shard(), run.offload);
  const double each = joined / (shards ? run.data_shard() : 1) * (state + (run.offload_master ? run.master : 0));
  m.moments_low = (offload - most) * each;
  m.moments_high = (offload - least) * each;
  m.weights += p.frozen * run.weight;
  m.initial += p.frozen * run.weight;
  add_units(run, p, gradient, m);
  if (run.fp8_weight > 0) m.weights += p.linear * (run.fp8_weight - run.weight);
  return m;
}

double rebuilt_routing(const MegatronSetup& run, const Stage& stage) {
  if (!run.shape.has_experts()) return 0;
  const RecomputeRules& r = run.recompute;
  const double layers = real(stage.layers());
  double checkpoints = 0;
  if (r.kind == RecomputeRules::Kind::selective && r.moe) {
    for (const StageChunk& chunk : stage.chunks)
      for (const Count i : chunk.layers) checkpoints += run.shape.is_moe(i) ? 1 : 0;
  } else if (r.kind == RecomputeRules::Kind::uniform) {
    checkpoints = std::ceil(layers / real(r.layers));
  } else if (r.kind == RecomputeRules::Kind::block) {
    checkpoints = std::min(layers, real(r.layers) * real(static_cast<Count>(stage.chunks.size())));
  }
  return checkpoints * 2 * LayerSizes(run).hidden;
}

std::vector<Term> persistent_buffers(const MegatronSetup& run, const Stage& stage) {
  std::vector<Term> terms;
  const Layer layer(run, false, {});
  const LayerSizes& z = layer.sizes();
  const double scores = run.flash ? 0 : z.scores;
  const double gather = run.layout.sequence_parallel ? z.hidden_full : 0;
  double tables = 0;
  // Each chunk is a model with a table of its own. The causal mask of a chunk that gets none is made anew in each layer.
  if (run.rope && !run.shape.mla)
    tables += 4 * real(run.layout.seq_length) * real(run.shape.head_dim) * real(static_cast<Count>(stage.chunks.size()));
  double routing = 0;
  for (const StageChunk& chunk : stage.chunks)
    for (const Count i : chunk.layers) routing += Layer(run, run.shape.is_moe(i), {}).remembered();
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
  // A shared expert that overlaps the dispatch multiplies in a stream of its own: torch keeps a workspace a handle and stream.
  const double streams = run.shared_overlap && run.shape.has_experts() && z.shared_act > 0 ? 2 : 1;
  terms.push_back(make_term(term::kWorkspace, Range::of(16.0 * 1048576, streams * 64.0 * 1048576, streams * 96.0 * 1048576),
                            "cuBLAS workspaces of two threads, 32 MiB each on Hopper"));
  return terms;
}

}  // namespace triage::signatures::memory
