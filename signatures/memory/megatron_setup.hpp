// Everything the Megatron model reads out of a RunConfig, once: shape, layout, precision, kernels, recompute.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/memory/layout.hpp"
#include "signatures/memory/shape.hpp"

namespace triage::signatures::memory {

// The same settings with Megatron Core's defaults (megatron-lm: its command line's; megatron-bridge: its providers') for every key of
// the model that is absent. Which ones were used goes to `assumptions`, in one sentence.
parsers::RunConfig with_megatron_defaults(const parsers::RunConfig& config, Assumptions& assumptions);

// Among the raw settings: rows of the worst layer's experts over the mean, seen in a failure. No program states it, so it has no key.
inline constexpr std::string_view kWorstLayer = "seen.moe_imbalance_of_worst_layer";

struct RecomputeRules {
  enum class Kind { none, selective, uniform, block } kind = Kind::none;
  Count layers = 1;  // of one group (uniform), of one model chunk (block)
  bool core_attention = false, mlp = false, moe = false, moe_act = false, layernorm = false;
  bool shared_experts = false, mla_up = false;
  bool distribute_saved = false;  // group inputs split over tensor ranks
};

enum class Fsdp { none, optim, optim_grads, optim_grads_params };

struct MegatronSetup {
  ModelShape shape;
  Layout layout;
  Count padded_vocab = 0;
  // Bytes of one element
  double weight = 2, gradient = 4, master = 4, exp_avg = 4, exp_avg_sq = 4;
  double fp8_weight = 0;       // of weights of linear layers kept in fp8 (with their transposed copy), 0: not
  bool gradient_copy = false;  // fp32 copy of the main gradients while the optimizer steps
  bool fp8_compute = false;    // inputs of linear layers are saved in fp8
  // Sharding
  bool distributed_optimizer = false;
  Fsdp fsdp = Fsdp::none;
  double offload = 0;          // fraction of the optimizer states on the host
  bool offload_master = false; // with them the master weights
  bool fused_adam = true;      // no temporary of the size of the parameters
  bool grad_fusion = true;     // weight gradients go straight into the main gradients
  bool overlap_grad_reduce = false;
  double instances = 1;        // copies of the optimizer's shards over the data ranks
  double ddp_bucket = 0;       // elements, 0: default
  // Kernels
  bool te = true;              // Transformer Engine modules
  bool flash = true;           // attention without a score matrix
  bool softmax_fusion = false; // scale, mask and soft-max of unfused attention in one kernel
  bool softmax_fp32 = false;   // soft-max of unfused attention on a copy of the scores in fp32
  bool scores_scaled = false;  // and on a copy that is scaled by the layer's number
  bool rope = true, rope_fusion = true;
  bool mlp_fusion = true;
  bool attention_mask = false; // the data loader makes one of seq x seq
  double attention_dropout = 0, hidden_dropout = 0;
  std::string loss_fusion = "none";
  // Mixture of experts
  bool grouped = false, permute_fusion = false;
  std::string dispatcher = "alltoall";
  double capacity = 0;         // 0: dropless
  bool pad_to_capacity = false;
  double router_bytes = 2;     // of a logit
  double imbalance = 1;        // rows of this rank's experts over the mean, as stated or measured
  double imbalance_peak = 1;   // the same of the worst layer
  bool shared_gate = false;    // the shared expert's output is weighted by a gate
  bool shared_overlap = false; // the shared expert runs in a stream of its own
  bool expert_overlap = false; // one more chunk in flight
  Count offload_layers = 0;    // layers whose activations go to the host
  RecomputeRules recompute;

  // Weights of experts are reduced with the dense ones unless they are spread otherwise (tensor_parallel/layers.py, attribute allreduce).
  bool experts_in_dense_buffer() const {
    return shape.has_experts() && layout.expert <= 1 && layout.expert_tensor == layout.tensor;
  }
  double data_shard() const {  // ranks that share the optimizer states of dense parameters
    return static_cast<double>(layout.data * layout.context) / instances;
  }
  double expert_shard() const { return std::max(1.0, static_cast<double>(layout.expert_data) / instances); }
};

// Errors as those of model_shape and make_layout.
parsers::Result<MegatronSetup> megatron_setup(const parsers::RunConfig& config, Assumptions& assumptions);

}  // namespace triage::signatures::memory
