// Names of volcengine/verl: verl/trainer/config/ppo_trainer.yaml and its parts.
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"

namespace triage::parsers {
namespace {

constexpr NameRow kRows[] = {
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", Key::micro_batch},
    {"actor_rollout_ref.actor.ulysses_sequence_parallel_size", Key::ulysses},
    {"actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size", Key::ulysses},
    {"actor_rollout_ref.actor.fsdp_config.param_offload", Key::param_offload},
    {"actor_rollout_ref.actor.fsdp_config.grad_offload", Key::grad_offload},
    {"actor_rollout_ref.actor.fsdp_config.optimizer_offload", Key::optimizer_offload},
    {"actor_rollout_ref.actor.fsdp_config.offload_policy", Key::fsdp_offload},
    {"actor_rollout_ref.actor.fsdp_config.reshard_after_forward", Key::reshard_after_forward},
    {"actor_rollout_ref.actor.megatron.param_offload", Key::param_offload},
    {"actor_rollout_ref.actor.megatron.grad_offload", Key::grad_offload},
    {"actor_rollout_ref.actor.megatron.optimizer_offload", Key::optimizer_offload},
    {"actor_rollout_ref.model.use_remove_padding", Key::packed_sequences},
    {"actor_rollout_ref.model.lora_rank", Key::lora_rank, How::positive},
    {"actor_rollout_ref.rollout.gpu_memory_utilization", Key::rollout_memory_fraction},
    {"actor_rollout_ref.rollout.tensor_model_parallel_size", Key::rollout_tensor_parallel},
    {"trainer.n_gpus_per_node", Key::gpus_per_node},
    {"trainer.save_freq", Key::save_interval, How::positive},
    {"trainer.total_training_steps", Key::train_steps, How::positive},
};

constexpr NameRow kMegatron[] = {
    {"actor_rollout_ref.actor.megatron.tensor_model_parallel_size", Key::tensor_parallel},
    {"actor_rollout_ref.actor.megatron.pipeline_model_parallel_size", Key::pipeline_parallel},
    {"actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size", Key::virtual_pipeline,
     How::plain, "1"},
    {"actor_rollout_ref.actor.megatron.context_parallel_size", Key::context_parallel},
    {"actor_rollout_ref.actor.megatron.expert_model_parallel_size", Key::expert_parallel},
    {"actor_rollout_ref.actor.megatron.expert_tensor_parallel_size", Key::expert_tensor_parallel},
    {"actor_rollout_ref.actor.megatron.sequence_parallel", Key::sequence_parallel},
    {"actor_rollout_ref.actor.megatron.use_distributed_optimizer", Key::distributed_optimizer},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity",
     Key::recompute, How::lower, "none"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method",
     Key::recompute_method},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers",
     Key::recompute_layers},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_modules",
     Key::recompute_modules, How::list},
};

}  // namespace

void apply_verl(const FlatSettings& settings, Target& target) {
  const Names names(settings);
  apply_rows(kRows, names, target);
  const std::string_view strategy = names.text("actor_rollout_ref.actor.strategy");
  const std::uint64_t line = names.line("actor_rollout_ref.actor.strategy");
  if (strategy == "megatron") {
    apply_rows(kMegatron, names, target);
    add_framework(target.config(), "megatron-lm");
  } else if (strategy == "fsdp" || strategy == "fsdp2") {
    target.put(Key::fsdp, std::string(strategy == "fsdp" ? "fsdp1" : "fsdp2"), line);
    add_framework(target.config(), "fsdp");
    const std::string_view dtype = names.text("actor_rollout_ref.actor.fsdp_config.model_dtype");
    if (!dtype.empty())
      target.put(Key::dtype, dtype_name(dtype),
                 names.line("actor_rollout_ref.actor.fsdp_config.model_dtype"));
    const std::string_view checkpointing = "actor_rollout_ref.model.enable_gradient_checkpointing";
    if (names.has(checkpointing))
      target.put(Key::recompute, std::string(names.yes(checkpointing) ? "full" : "none"),
                 names.line(checkpointing));
  }
  const auto prompt = names.integer("data.max_prompt_length"),
             response = names.integer("data.max_response_length");
  if (prompt && response && *prompt >= 0 && *response >= 0 && *prompt < (1 << 30) &&
      *response < (1 << 30))
    target.put(Key::seq_length, *prompt + *response, names.line("data.max_response_length"));
  const auto devices = names.integer("trainer.n_gpus_per_node"),
             nodes = names.integer("trainer.nnodes");
  if (devices && nodes && *devices > 0 && *nodes > 0 && *devices < 1024 && *nodes < 1'000'000)
    target.put(Key::world, *devices * *nodes, names.line("trainer.nnodes"));
  if (names.yes("actor_rollout_ref.model.use_liger"))
    target.put(Key::loss_fusion, std::string("liger"),
               names.line("actor_rollout_ref.model.use_liger"));
  else if (names.yes("actor_rollout_ref.model.use_fused_kernels"))
    target.put(Key::loss_fusion, std::string("linear"),
               names.line("actor_rollout_ref.model.use_fused_kernels"));
}

}  // namespace triage::parsers
