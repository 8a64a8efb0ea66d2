#include "signatures/memory/megatron_setup.hpp"

#include <algorithm>

#include "parsers/base/text.hpp"
#include "parsers/config/merge.hpp"

namespace triage::signatures::memory {

using parsers::Key;
using parsers::RunConfig;
using parsers::Value;

namespace {

struct Default {
  Key key;
  Value value;
};

// NVIDIA/Megatron-LM@d98e8a6: megatron/training/arguments.py and megatron/core/transformer/transformer_config.py.
const std::vector<Default>& lm_defaults() {
  static const std::vector<Default> rows = {
      {Key::transformer_impl, std::string("transformer_engine")},
      {Key::gated_mlp, false},
      {Key::tied_embeddings, true},
      {Key::linear_bias, true},
      {Key::norm, std::string("layernorm")},
      {Key::position_embedding, std::string("learned_absolute")},
      {Key::vocab_divisor, std::int64_t{128}},
      {Key::hidden_dropout, 0.1},
      {Key::attention_dropout, 0.1},
      {Key::distributed_optimizer, false},
      {Key::dtype, std::string("fp32")},
      {Key::optimizer, std::string("adam")},
      {Key::recompute, std::string("none")},
      {Key::grad_accumulation_fusion, true},
      {Key::loss_fusion, std::string("none")},
      {Key::rope_fusion, true},
      {Key::softmax_fusion, true},
      {Key::mlp_fusion, true},
      {Key::attention_mask, true},
  };
  return rows;
}

// NVIDIA-NeMo/Megatron-Bridge@067f987: src/megatron/bridge/models/gpt_provider.py, training/config.py; what its model providers share.
const std::vector<Default>& bridge_defaults() {
  static const std::vector<Default> rows = {
      {Key::transformer_impl, std::string("transformer_engine")},
      {Key::gated_mlp, true},
      {Key::tied_embeddings, false},
      {Key::linear_bias, false},
      {Key::norm, std::string("rmsnorm")},
      {Key::position_embedding, std::string("rope")},
      {Key::vocab_divisor, std::int64_t{128}},
      {Key::hidden_dropout, 0.0},
      {Key::attention_dropout, 0.0},
      {Key::distributed_optimizer, true},
      {Key::dtype, std::string("bf16")},
      {Key::optimizer, std::string("adam")},
      {Key::recompute, std::string("none")},
      {Key::grad_accumulation_fusion, true},
      {Key::loss_fusion, std::string("te")},
      {Key::rope_fusion, true},
      {Key::softmax_fusion, true},
      {Key::mlp_fusion, true},
      {Key::attention_mask, false},
  };
  return rows;
}

double bytes_of(const std::string& dtype, double otherwise) {
  if (dtype == "fp32") return 4;
  if (dtype == "bf16" || dtype == "fp16") return 2;
  if (dtype == "fp8" || dtype == "uint8") return 1;
  return otherwise;
}

void read_precision(const RunConfig& config, MegatronSetup& run, Assumptions& assumptions) {
  const auto text = [&](Key key) { return config.text(key).value_or(""); };
  const auto yes = [&](Key key) { return config.boolean(key).value_or(false); };
  const std::string dtype = text(Key::dtype);
  run.weight = bytes_of(dtype, 2);
  // Main gradients: fp32 beside bf16 weights unless reduced in bf16; fp16 runs keep them in fp16 (arguments.py, validate_args).
  run.gradient = dtype == "fp16" ? 2 : 4;
  // The dtype of main gradients can be chosen with the precision-aware optimizer; fp16 runs follow it only then.
  if (dtype != "fp16" || yes(Key::precision_aware_optimizer))
    run.gradient = bytes_of(text(Key::main_grads_dtype), run.gradient);
  if (yes(Key::grad_reduce_in_bf16)) run.gradient = 2;
  run.master = run.weight < 4 ? 4 : 0;
  const bool aware = yes(Key::precision_aware_optimizer);
  if (aware && run.weight < 4) {
    // Transformer Engine's FusedAdam keeps the low 16 bits of the master beside the bf16 weight (store_param_remainders).
    const double main = bytes_of(text(Key::main_params_dtype), 4);
    run.master = dtype == "bf16" && main == 4 ? 2 : main;
    run.exp_avg = bytes_of(text(Key::exp_avg_dtype), 4);
    run.exp_avg_sq = bytes_of(text(Key::exp_avg_sq_dtype), 4);
  }
  run.gradient_copy = run.gradient < 4 && !aware;
  const std::string optimizer = text(Key::optimizer);
  if (optimizer == "sgd") {
    run.exp_avg_sq = 0;
    if (config.number(Key::momentum) == 0.0) run.exp_avg = 0;
  } else if (optimizer == "lion") {
    run.exp_avg_sq = 0;
  } else if (optimizer.find("muon") != std::string::npos) {
    run.exp_avg_sq = 0;
    assume(assumptions, "optimizer",
           "muon keeps one moment; Adam's second one of embeddings and norms is left out");
  }
  run.offload = 0;
  if (yes(Key::optimizer_offload)) {
    run.offload = std::clamp(config.number(Key::optimizer_offload_fraction).value_or(1.0), 0.0, 1.0);
    run.offload_master = aware;
    // The hybrid optimizer keeps whole fp32 copies and fp32 moments, whatever the dtypes of the precision-aware optimizer.
    if (run.weight < 4 && aware) run.master = run.exp_avg = run.exp_avg_sq = 4;
  }
  if (!text(Key::fp8).empty() && run.weight < 4) {
    run.fp8_compute = true;
    // Weights in fp8 keep a transposed copy too where the card multiplies one layout only.
    if (yes(Key::fp8_params)) run.fp8_weight = 2;
  }
}

std::optional<double> worst_layer(const RunConfig& config) {
  const auto found = config.raw().find(kWorstLayer);
  return found == config.raw().end() ? std::nullopt : parsers::read_double(found->second.value);
}

void read_kernels(const RunConfig& config, MegatronSetup& run, Assumptions& assumptions) {
  const auto text = [&](Key key) { return config.text(key).value_or(""); };
  const auto yes = [&](Key key) { return config.boolean(key).value_or(false); };
  run.te = text(Key::transformer_impl) != "local";
  const std::string attention = text(Key::attention);
  run.flash = attention.empty() ? run.te : attention != "unfused" && attention != "eager" &&
                                               attention != "local";
  // fused_softmax.py, is_kernel_available: which scores the kernel takes.
  const Count seq = run.layout.seq_length, matrices = run.layout.micro_batch * std::max<Count>(1, run.shape.heads / run.layout.tensor);
  run.softmax_fusion = yes(Key::softmax_fusion) && run.weight < 4 && seq > 16 && seq <= 4096 && seq % 4 == 0 && matrices % 4 == 0;
  run.scores_scaled = yes(Key::query_key_scaling) && !run.softmax_fusion;
  run.softmax_fp32 = (yes(Key::softmax_fp32) || yes(Key::query_key_scaling)) && !run.softmax_fusion;
  const std::string position = text(Key::position_embedding);
  run.rope = position.empty() || position == "rope" || position == "yarn" || position == "mrope";
  run.rope_fusion = run.te && yes(Key::rope_fusion);
  run.mlp_fusion = yes(Key::mlp_fusion);
  run.attention_mask = yes(Key::attention_mask);
  run.attention_dropout = config.number(Key::attention_dropout).value_or(0);
  run.hidden_dropout = config.number(Key::hidden_dropout).value_or(0);
  run.loss_fusion = text(Key::loss_fusion);
  run.grad_fusion = yes(Key::grad_accumulation_fusion);
  run.overlap_grad_reduce = yes(Key::overlap_grad_reduce);
  run.ddp_bucket = static_cast<double>(config.integer(Key::ddp_bucket).value_or(0));
  if (const auto fused = config.boolean(Key::optimizer_fused)) {
    run.fused_adam = *fused;
  } else {
    run.fused_adam = run.te || run.offload > 0;
    if (!run.te)
      assume(assumptions, "optimizer_fused",
             "torch's own Adam (one temporary as large as the parameters it steps): with transformer_impl local "
             "neither Transformer Engine nor Apex is taken to be installed");
  }
  run.grouped = run.te && config.boolean(Key::moe_grouped_gemm).value_or(false);
  run.permute_fusion = yes(Key::moe_permute_fusion);
  run.dispatcher = text(Key::moe_dispatcher).empty() ? "allgather" : text(Key::moe_dispatcher);
  run.capacity = config.number(Key::moe_capacity_factor).value_or(0);
  run.imbalance = std::clamp(config.number(Key::moe_imbalance).value_or(1), 1.0, 1e6);
  run.imbalance_peak = std::clamp(worst_layer(config).value_or(run.imbalance), run.imbalance, 1e6);
  run.pad_to_capacity = run.capacity > 0 && yes(Key::moe_pad_to_capacity);
  run.router_bytes = bytes_of(text(Key::moe_router_dtype), run.weight);
  run.expert_overlap = yes(Key::moe_comm_overlap);
  run.shared_gate = yes(Key::moe_shared_gate);
  run.shared_overlap = yes(Key::moe_shared_overlap);
  run.offload_layers = config.integer(Key::offload_layers).value_or(0);
}

void read_recompute(const RunConfig& config, MegatronSetup& run) {
  RecomputeRules& rules = run.recompute;
  const std::string kind = config.text(Key::recompute).value_or("none");
  using Kind = RecomputeRules::Kind;
  if (kind == "full") {
    rules.kind = config.text(Key::recompute_method).value_or("uniform") == "block" ? Kind::block
                                                                                   : Kind::uniform;
    rules.layers = std::max<Count>(1, config.integer(Key::recompute_layers).value_or(1));
    rules.distribute_saved = config.boolean(Key::distribute_saved_activations).value_or(false);
  } else if (kind == "selective") {
    rules.kind = Kind::selective;
    static const std::vector<std::string> usual = {"core_attn"};
    const auto* given = config.list(Key::recompute_modules);
    for (const std::string& name : given ? *given : usual) {
      rules.core_attention |= name == "core_attn";
      rules.mlp |= name == "mlp";
      rules.moe |= name == "moe";
      rules.moe_act |= name == "moe_act";
      rules.layernorm |= name == "layernorm";
      rules.shared_experts |= name == "shared_experts";
      rules.mla_up |= name == "mla_up_proj";
    }
  }
}

}  // namespace

RunConfig with_megatron_defaults(const RunConfig& given, Assumptions& assumptions) {
  RunConfig config = given;
  const bool bridge = config.text(Key::framework).value_or("") != "megatron-lm";
  std::string taken;
  for (const Default& row : bridge ? bridge_defaults() : lm_defaults()) {
    if (config.has(row.key)) continue;
    config.set(row.key, row.value, bridge ? "default of megatron-bridge" : "default of megatron-lm");
    taken += (taken.empty() ? "" : ", ") + std::string(key_info(row.key).name) + " " +
             parsers::value_text(row.value);
  }
  if (!taken.empty())
    assume(assumptions, "",
           std::string(bridge ? "Megatron Bridge's" : "Megatron-LM's") + " defaults: " + taken);
  if (!config.has(Key::moe_dispatcher) && config.integer(Key::experts).value_or(0) > 0)
    config.set(Key::moe_dispatcher, std::string(bridge ? "alltoall" : "allgather"), "default");
  if (!config.has(Key::experts_per_token) && config.integer(Key::experts).value_or(0) > 0)
    config.set(Key::experts_per_token, std::int64_t{2}, "default of megatron-core");
  parsers::derive(config);
  return config;
}

parsers::Result<MegatronSetup> megatron_setup(const RunConfig& given, Assumptions& assumptions) {
  const RunConfig config = with_megatron_defaults(given, assumptions);
  MegatronSetup run;
  TRIAGE_TRY(run.shape, model_shape(config, assumptions));
  TRIAGE_TRY(run.layout, make_layout(config, run.shape, assumptions));
  if (const auto faults = layout_faults(run.layout, run.shape); !faults.empty())
    assume(assumptions, "", "this layout cannot run as it stands: " + faults.front());
  run.padded_vocab = run.shape.padded_vocab;
  if (run.padded_vocab == 0) {
    const Count unit = run.shape.vocab_divisor * run.layout.tensor;
    run.padded_vocab = (run.shape.vocab + unit - 1) / unit * unit;
  }
  read_precision(config, run, assumptions);
  read_kernels(config, run, assumptions);
  read_recompute(config, run);
  run.distributed_optimizer = config.boolean(Key::distributed_optimizer).value_or(false);
  // distrib_optimizer.py: each instance shards over its part of the data ranks (intra_dist_opt_group).
  const Count shards = run.layout.data * run.layout.context, instances = config.integer(Key::optimizer_instances).value_or(1);
  if (instances > 1 && shards % instances == 0)
    run.instances = static_cast<double>(instances);
  else if (instances > 1)
    assume(assumptions, "optimizer_instances", "ignored: the data ranks do not divide by it");
  if (config.text(Key::fsdp).value_or("none") == "megatron") {
    const std::string strategy = config.text(Key::fsdp_strategy).value_or("no_shard");
    run.fsdp = strategy == "optim_grads_params" ? Fsdp::optim_grads_params
               : strategy == "optim_grads"      ? Fsdp::optim_grads
                                                : Fsdp::optim;
    if (strategy == "no_shard") {
      run.fsdp = Fsdp::none;
      run.distributed_optimizer = false;
    }
  }
  return run;
}

}  // namespace triage::signatures::memory
