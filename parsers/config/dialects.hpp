// The names under which each program keeps its settings, mapped to the canonical keys of keys.def.
// One file a program. Each takes what a reader of layouts gathered and fills the target; names it
// does not know stay raw settings only.
#pragma once

#include "parsers/config/flat_setting.hpp"
#include "parsers/config/target.hpp"

namespace triage::parsers {

// Megatron-LM's argparse names without dashes (tensor_model_parallel_size), also those of
// megatron-core's TransformerConfig, OptimizerConfig and DistributedDataParallelConfig, and NeMo
// 1's. A name whose value is None tells that the thing is off.
void apply_megatron(const FlatSettings& settings, Target& target);

// The same names in sections: "model.num_layers", "train.micro_batch_size", "ddp.bucket_size",
// "peft.dim" (Megatron Bridge), "model.encoder_seq_length", "trainer.devices", "model.optim.name"
// (NeMo 1).
void apply_megatron_sections(const FlatSettings& settings, Target& target);

// transformers.TrainingArguments and its kin (SFTConfig, LLaMA-Factory's arguments).
void apply_training_arguments(const FlatSettings& settings, Target& target);

// config.json of a Hugging Face model.
void apply_model_config(const FlatSettings& settings, Target& target);

// DeepSpeed's ds_config ("zero_optimization.stage") and the names of its own print
// ("zero_optimization_stage", "world_size").
void apply_deepspeed(const FlatSettings& settings, Target& target);

// torchtitan's job configuration ("parallelism.tensor_parallel_degree"), also of older versions.
void apply_torchtitan(const FlatSettings& settings, Target& target);

// verl's hydra configuration ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu").
void apply_verl(const FlatSettings& settings, Target& target);

// MaxText's "Config param" names.
void apply_maxtext(const FlatSettings& settings, Target& target);

// PYTORCH_CUDA_ALLOC_CONF's value ("expandable_segments:True,max_split_size_mb:512").
void apply_alloc_conf(std::string_view value, std::uint64_t line, Target& target);

}  // namespace triage::parsers
