// Names of NVIDIA/Megatron-LM: megatron/training/arguments.py and
// megatron/core/{transformer/transformer_config, optimizer/optimizer_config,
// distributed/distributed_data_parallel_config}.py; NVIDIA-NeMo/Megatron-Bridge:
// training/config.py; NVIDIA/NeMo: megatron_gpt_config.yaml.
#include <algorithm>
#include <array>

#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"

namespace triage::parsers {
namespace {

constexpr NameRow kModel[] = {
    {"num_layers", Key::layers},
    {"hidden_size", Key::hidden},
    {"ffn_hidden_size", Key::ffn},
    {"num_attention_heads", Key::heads},
    {"kv_channels", Key::head_dim},
    {"vocab_size", Key::vocab},
    {"padded_vocab_size", Key::padded_vocab},
    {"make_vocab_size_divisible_by", Key::vocab_divisor},
    {"untie_embeddings_and_output_weights", Key::tied_embeddings, How::negate},
    {"share_embeddings_and_output_weights", Key::tied_embeddings},
    {"swiglu", Key::gated_mlp},
    {"gated_linear_unit", Key::gated_mlp},
    {"add_bias_linear", Key::linear_bias},
    {"disable_bias_linear", Key::linear_bias, How::negate},
    {"bias", Key::linear_bias},
    {"add_qkv_bias", Key::qkv_bias},
    {"normalization", Key::norm, How::lower},
    {"qk_layernorm", Key::qk_norm},
    {"position_embedding_type", Key::position_embedding, How::lower},
    {"max_position_embeddings", Key::max_positions},
    {"mtp_num_layers", Key::mtp_layers, How::plain, "0"},
    {"window_size", Key::sliding_window, How::window},
    {"masked_softmax_fusion", Key::softmax_fusion},
    {"attention_softmax_in_fp32", Key::softmax_fp32},
    {"apply_query_key_layer_scaling", Key::query_key_scaling},
    {"rope_fusion", Key::rope_fusion},
    {"apply_rope_fusion", Key::rope_fusion},
    {"bias_swiglu_fusion", Key::mlp_fusion},
    {"create_attention_mask_in_dataloader", Key::attention_mask},
    {"attention_dropout", Key::attention_dropout},
    {"hidden_dropout", Key::hidden_dropout},
    {"transformer_impl", Key::transformer_impl},
    {"freeze_language_model", Key::freeze_language},
    {"freeze_vision_model", Key::freeze_vision},
    {"freeze_vision_projection", Key::freeze_projector},
    {"freeze_LM", Key::freeze_language},
    {"freeze_ViT", Key::freeze_vision},
    {"params_dtype", Key::dtype, How::dtype},
};

constexpr NameRow kMoe[] = {
    // only where there are experts: Megatron prints the defaults of these for dense models too
    {"moe_router_topk", Key::experts_per_token},
    {"moe_ffn_hidden_size", Key::expert_ffn},
    {"moe_shared_expert_intermediate_size", Key::shared_expert_ffn, How::plain, "0"},
    {"moe_layer_freq", Key::moe_layer_frequency},
    {"moe_token_dispatcher_type", Key::moe_dispatcher},
    {"moe_expert_capacity_factor", Key::moe_capacity_factor, How::positive},
    {"moe_pad_expert_input_to_capacity", Key::moe_pad_to_capacity},
    {"moe_router_load_balancing_type", Key::moe_balancing},
    {"moe_grouped_gemm", Key::moe_grouped_gemm},
    {"moe_permute_fusion", Key::moe_permute_fusion},
    {"moe_shared_expert_overlap", Key::moe_shared_overlap},
    {"moe_shared_expert_gate", Key::moe_shared_gate},
    {"moe_router_dtype", Key::moe_router_dtype},
    {"overlap_moe_expert_parallel_comm", Key::moe_comm_overlap},
};

constexpr NameRow kMla[] = {
    {"q_lora_rank", Key::mla_q_rank},   {"kv_lora_rank", Key::mla_kv_rank},
    {"qk_head_dim", Key::mla_nope_dim}, {"qk_pos_emb_head_dim", Key::mla_rope_dim},
    {"v_head_dim", Key::mla_v_dim},
};

constexpr NameRow kRun[] = {
    {"seq_length", Key::seq_length},
    {"encoder_seq_length", Key::seq_length},
    {"sequence_length", Key::seq_length},
    {"micro_batch_size", Key::micro_batch},
    {"global_batch_size", Key::global_batch},
    {"eval_micro_batch_size", Key::eval_micro_batch},
    {"world_size", Key::world},
    {"tensor_model_parallel_size", Key::tensor_parallel},
    {"pipeline_model_parallel_size", Key::pipeline_parallel},
    {"virtual_pipeline_model_parallel_size", Key::virtual_pipeline, How::plain, "1"},
    {"context_parallel_size", Key::context_parallel},
    {"expert_model_parallel_size", Key::expert_parallel},
    {"expert_tensor_parallel_size", Key::expert_tensor_parallel},
    {"data_parallel_size", Key::data_parallel},
    {"sequence_parallel", Key::sequence_parallel},
    {"decoder_first_pipeline_num_layers", Key::layers_first_stage},
    {"decoder_last_pipeline_num_layers", Key::layers_last_stage},
    {"num_layers_in_first_pipeline_stage", Key::layers_first_stage},
    {"num_layers_in_last_pipeline_stage", Key::layers_last_stage},
    {"pipeline_model_parallel_layout", Key::pipeline_layout},
    {"account_for_embedding_in_pipeline_split", Key::account_embedding},
    {"account_for_loss_in_pipeline_split", Key::account_loss},
    {"microbatch_group_size_per_vp_stage", Key::microbatch_group},
    {"microbatch_group_size_per_virtual_pipeline_stage", Key::microbatch_group},
    {"use_distributed_optimizer", Key::distributed_optimizer},
    {"num_distributed_optimizer_instances", Key::optimizer_instances},
    {"optimizer", Key::optimizer, How::lower},
    {"overlap_grad_reduce", Key::overlap_grad_reduce},
    {"overlap_param_gather", Key::overlap_param_gather},
    {"use_precision_aware_optimizer", Key::precision_aware_optimizer},
    {"main_params_dtype", Key::main_params_dtype, How::dtype},
    {"exp_avg_dtype", Key::exp_avg_dtype, How::dtype},
    {"exp_avg_sq_dtype", Key::exp_avg_sq_dtype, How::dtype},
    {"grad_reduce_in_bf16", Key::grad_reduce_in_bf16},
    {"optimizer_cpu_offload", Key::optimizer_offload},
    {"gradient_accumulation_fusion", Key::grad_accumulation_fusion},
    {"ddp_bucket_size", Key::ddp_bucket},
    {"nccl_ub", Key::nccl_user_buffers},
    {"num_workers", Key::dataloader_workers},
    {"save_interval", Key::save_interval, How::positive},
    {"train_iters", Key::train_steps, How::positive},
    {"distribute_saved_activations", Key::distribute_saved_activations},
    {"distribute_checkpointed_activations", Key::distribute_saved_activations},
};

void apply_precision(const Names& names, Target& target) {
  if (names.yes("bf16"))
    target.put(Key::dtype, std::string("bf16"), names.line("bf16"));
  else if (names.yes("fp16"))
    target.put(Key::dtype, std::string("fp16"), names.line("fp16"));
  else if (names.no("bf16") && names.no("fp16") && !names.has("params_dtype"))
    target.put(Key::dtype, std::string("fp32"), names.line("bf16"));
  // Main gradients: the distributed-optimizer setting only counts with the precision-aware
  // optimizer.
  if (names.yes("use_precision_aware_optimizer")) {
    target.put_text(Key::main_grads_dtype, dtype_name(names.text("main_grads_dtype")),
                    names.line("main_grads_dtype"));
  } else if (const char* fp32 = names.has("accumulate_allreduce_grads_in_fp32")
                                    ? "accumulate_allreduce_grads_in_fp32"
                                    : "grad_reduce_in_fp32";
             names.has(fp32)) {
    if (names.yes(fp32))
      target.put(Key::main_grads_dtype, std::string("fp32"), names.line(fp32));
    else if (names.yes("bf16"))
      target.put(Key::main_grads_dtype, std::string("bf16"), names.line(fp32));
  }
  const std::string_view fp8 = names.text("fp8"), fp4 = names.text("fp4");
  if (!fp8.empty() && !is_false(fp8)) {
    std::string format = is_true(fp8) ? "hybrid" : lower(enum_value(fp8));
    if (is_true(fp8) && names.yes("fp8_e4m3")) format = "e4m3";
    target.put(Key::fp8, std::move(format), names.line("fp8"));
    target.put_text(Key::fp8_recipe, lower(enum_value(names.text("fp8_recipe"))),
                    names.line("fp8_recipe"));
    target.put_text(Key::fp8_params,
                    names.text(names.has("fp8_param_gather") ? "fp8_param_gather" : "fp8_param"),
                    names.line("fp8_param_gather"));
  } else if (!fp4.empty() && !is_false(fp4)) {
    target.put(Key::fp8, std::string("nvfp4"), names.line("fp4"));
    target.put_text(Key::fp8_recipe, lower(enum_value(names.text("fp4_recipe"))),
                    names.line("fp4_recipe"));
    target.put_text(Key::fp8_params, names.text("fp4_param_gather"),
                    names.line("fp4_param_gather"));
  }
}

void put_modules(Key key, std::string_view name, const Names& names, Target& target) {
  const std::array<NameRow, 1> row = {{{name, key, How::list}}};
  apply_rows(row, names, target);
}

void apply_recompute(const Names& names, Target& target) {
  // NeMo 1 spells them activations_checkpoint_*.
  const auto pick = [&](std::string_view now, std::string_view nemo) {
    return names.has(now) ? now : nemo;
  };
  const std::string_view granularity =
      pick("recompute_granularity", "activations_checkpoint_granularity");
  const std::string_view method = pick("recompute_method", "activations_checkpoint_method");
  const std::string_view layers = pick("recompute_num_layers", "activations_checkpoint_num_layers");
  std::string kind = lower(names.text(granularity));
  std::uint64_t line = names.line(granularity);
  if (kind.empty() && names.yes("recompute_activations"))
    kind = "selective", line = names.line("recompute_activations");
  // Before 2022 there was full recompute only: --checkpoint-activations,
  // --activations-checkpoint-method.
  if (kind.empty() && !names.has(granularity)) {
    if (names.yes("checkpoint_activations"))
      kind = "full", line = names.line("checkpoint_activations");
    else if (!names.text("activations_checkpoint_method").empty())
      kind = "full", line = names.line("activations_checkpoint_method");
    else if (names.has("checkpoint_activations") || names.has("activations_checkpoint_method"))
      kind = "none", line = names.line("checkpoint_activations");
  }
  if (kind.empty() && names.has(granularity)) kind = "none";
  if (kind.empty()) {
    put_modules(Key::recompute_modules, "recompute_modules", names, target);
    return;
  }
  target.put(Key::recompute, kind, line);
  if (kind == "full") {
    target.put_text(Key::recompute_method, lower(names.text(method)), names.line(method));
    if (const auto n = names.integer(layers); n && *n > 0)
      target.put(Key::recompute_layers, *n, names.line(layers));
  } else if (kind == "selective") {
    if (names.text("recompute_modules").empty())
      target.put(Key::recompute_modules, std::vector<std::string>{"core_attn"}, line);
    else
      put_modules(Key::recompute_modules, "recompute_modules", names, target);
  }
}

void apply_attention(const Names& names, Target& target) {
  if (names.yes("multi_latent_attention")) {
    target.put(Key::mla, true, names.line("multi_latent_attention"));
    apply_rows(kMla, names, target);
  } else if (names.has("multi_latent_attention")) {
    target.put(Key::mla, false, names.line("multi_latent_attention"));
  }
  if (const auto heads = names.integer("num_attention_heads")) {
    const auto groups = names.integer("num_query_groups");
    if (groups && *groups > 0 && !names.no("group_query_attention"))
      target.put(Key::kv_heads, *groups, names.line("num_query_groups"));
    else if (names.no("group_query_attention") || names.has("num_query_groups"))
      target.put(Key::kv_heads, *heads, names.line("num_attention_heads"));
  }
  const std::string backend = lower(enum_value(names.text("attention_backend")));
  if (!backend.empty() && backend != "auto")
    target.put(Key::attention, backend == "local" ? std::string("unfused") : backend,
               names.line("attention_backend"));
  else if (names.yes("use_flash_attn"))
    target.put(Key::attention, std::string("flash"), names.line("use_flash_attn"));
  else if (names.yes("use_flash_attention"))
    target.put(Key::attention, std::string("flash"), names.line("use_flash_attention"));
  else if (names.text("transformer_impl") == "local")
    target.put(Key::attention, std::string("unfused"), names.line("transformer_impl"));
  // NeMo 1: activation: fast-swiglu, swiglu, geglu, reglu
  if (const std::string_view activation = names.text("activation"); !activation.empty())
    target.put(Key::gated_mlp, contains(activation, "glu"), names.line("activation"));
}

void apply_fusions(const Names& names, Target& target) {
  if (names.yes("cross_entropy_loss_fusion")) {
    const std::string kind = lower(enum_value(names.text("cross_entropy_fusion_impl")));
    target.put(Key::loss_fusion, kind.empty() ? std::string("native") : kind,
               names.line("cross_entropy_loss_fusion"));
  } else if (names.no("cross_entropy_loss_fusion")) {
    target.put(Key::loss_fusion, std::string("none"), names.line("cross_entropy_loss_fusion"));
  }
  std::string graphs = lower(enum_value(names.text("cuda_graph_impl")));
  std::uint64_t line = names.line("cuda_graph_impl");
  if (names.yes("enable_cuda_graph"))
    graphs = "local", line = names.line("enable_cuda_graph");
  else if (names.yes("external_cuda_graph"))
    graphs = "transformer_engine", line = names.line("external_cuda_graph");
  else if (graphs.empty() && names.no("enable_cuda_graph") && !names.yes("external_cuda_graph"))
    graphs = "none", line = names.line("enable_cuda_graph");
  if (!graphs.empty()) target.put(Key::cuda_graphs, graphs, line);
  if (!graphs.empty() && graphs != "none")
    put_modules(Key::cuda_graph_scope,
                names.has("cuda_graph_modules") ? "cuda_graph_modules" : "cuda_graph_scope", names,
                target);
}

void apply_sharding(const Names& names, Target& target) {
  if (names.yes("use_megatron_fsdp") || names.yes("use_custom_fsdp")) {
    target.put(Key::fsdp, std::string("megatron"), names.line("use_megatron_fsdp"));
    target.put_text(Key::fsdp_strategy, names.text("data_parallel_sharding_strategy"),
                    names.line("data_parallel_sharding_strategy"));
  } else if (names.yes("use_torch_fsdp2")) {
    target.put(Key::fsdp, std::string("fsdp2"), names.line("use_torch_fsdp2"));
    target.put_text(Key::reshard_after_forward, names.text("torch_fsdp2_reshard_after_forward"),
                    names.line("torch_fsdp2_reshard_after_forward"));
  } else if (names.has("use_megatron_fsdp") || names.has("use_torch_fsdp2") ||
             names.has("use_custom_fsdp")) {
    target.put(
        Key::fsdp, std::string("none"),
        names.line(names.has("use_megatron_fsdp") ? "use_megatron_fsdp" : "use_torch_fsdp2"));
  }
  if (names.yes("optimizer_cpu_offload"))
    target.put_text(Key::optimizer_offload_fraction, names.text("optimizer_offload_fraction"),
                    names.line("optimizer_offload_fraction"));
  if (const auto layers = names.integer("cpu_offloading_num_layers");
      layers && !names.no("cpu_offloading"))
    target.put(Key::offload_layers, *layers, names.line("cpu_offloading_num_layers"));
  if (names.yes("fine_grained_activation_offloading"))
    put_modules(Key::offload_modules, "offload_modules", names, target);
  if (names.yes("deepspeed")) {  // Megatron-DeepSpeed
    target.put_text(Key::zero_stage, names.text("zero_stage"), names.line("zero_stage"));
    add_framework(target.config(), "deepspeed");
  }
  if (names.text("optim.name") == "distributed_fused_adam")
    target.put(Key::distributed_optimizer, true, names.line("optim.name"));
}

// "[0, 0, 0, 1, 1, ...]" or "([0]*3+[1]*58)": how many leading layers are dense.
std::int64_t leading_dense(std::string_view pattern) {
  std::int64_t zeros = 0;
  std::string_view rest = pattern;
  while (!rest.empty() && (rest.front() == '(' || rest.front() == '[' || rest.front() == ' ' ||
                           rest.front() == '\''))
    rest.remove_prefix(1);
  while (!rest.empty() && rest.front() == '0') {
    rest.remove_prefix(1);
    if (consume(rest, "]*")) return take_integer(rest).value_or(0);
    ++zeros;
    while (!rest.empty() && (rest.front() == ',' || rest.front() == ' ')) rest.remove_prefix(1);
  }
  return zeros;
}

void apply_moe(const Names& names, Target& target) {
  const std::string_view name = names.has("num_moe_experts") ? "num_moe_experts" : "num_experts";
  const FlatSetting* experts = names.find(name);
  if (!experts) return;
  const auto count = names.integer(name);
  target.put(Key::experts, count.value_or(0), experts->line);
  if (!count || *count <= 0) return;
  apply_rows(kMoe, names, target);
  const std::string_view frequency = names.text("moe_layer_freq");
  if (contains(frequency, "["))
    target.put(Key::dense_layers, leading_dense(frequency), names.line("moe_layer_freq"));
  if (names.yes("moe_enable_deepep"))
    target.put(Key::moe_dispatcher_backend, std::string("deepep"), names.line("moe_enable_deepep"));
  else if (names.text("moe_token_dispatcher_type") == "flex")
    target.put_text(Key::moe_dispatcher_backend,
                    lower(enum_value(names.text("moe_flex_dispatcher_backend"))),
                    names.line("moe_flex_dispatcher_backend"));
}

}  // namespace

void apply_megatron(const FlatSettings& settings, Target& target) {
  const Names names(settings);
  apply_rows(kModel, names, target);
  apply_rows(kRun, names, target);
  apply_precision(names, target);
  apply_attention(names, target);
  apply_recompute(names, target);
  apply_fusions(names, target);
  apply_sharding(names, target);
  apply_moe(names, target);
  // Only the layers of one chunk are given: the number of chunks follows.
  const auto chunk = names.integer("num_layers_per_virtual_pipeline_stage"),
             layers = names.integer("num_layers"),
             stages = names.integer("pipeline_model_parallel_size");
  if (!names.has("virtual_pipeline_model_parallel_size") && chunk && layers && stages &&
      *chunk > 0 && *stages > 0 && *chunk < (1 << 20) && *stages < (1 << 20) &&
      *layers % (*chunk * *stages) == 0)
    target.put(Key::virtual_pipeline, *layers / (*chunk * *stages),
               names.line("num_layers_per_virtual_pipeline_stage"));
  if (const auto chunks = names.integer("num_virtual_stages_per_pipeline_rank");
      chunks && !names.has("virtual_pipeline_model_parallel_size"))
    target.put(Key::virtual_pipeline, *chunks, names.line("num_virtual_stages_per_pipeline_rank"));
  if (const std::string_view conf = names.text("empty_unused_memory_level");
      conf == "1" || conf == "2")
    target.put(Key::empty_cache_steps, std::int64_t{1}, names.line("empty_unused_memory_level"));
}

namespace {

constexpr NameRow kVision[] = {
    {"num_layers", Key::vision_layers},
    {"depth", Key::vision_layers},
    {"num_hidden_layers", Key::vision_layers},
    {"hidden_size", Key::vision_hidden},
    {"ffn_hidden_size", Key::vision_ffn},
    {"intermediate_size", Key::vision_ffn},
    {"num_attention_heads", Key::vision_heads},
    {"num_heads", Key::vision_heads},
    {"patch_size", Key::vision_patch},
    {"patch_dim", Key::vision_patch},
    {"temporal_patch_size", Key::vision_temporal_patch},
    {"spatial_merge_size", Key::vision_merge},
    {"num_position_embeddings", Key::vision_positions},
    {"image_size", Key::vision_image_size},
};

constexpr NameRow kTrainer[] = {
    // Lightning's Trainer, as NeMo 1 configures it
    {"devices", Key::gpus_per_node},
    {"max_steps", Key::train_steps, How::positive},
};

// megatron/core/transformer/enums.py, AttnBackend
std::string_view attention_backend(std::string_view list) {
  if (list == "[1]") return "flash";
  if (list == "[2]") return "fused";
  if (list == "[3]") return "unfused";
  if (list == "[4]") return "local";
  return "auto";
}

bool plain_section(std::string_view section) {
  for (const std::string_view known :
       {"model", "train", "optimizer", "ddp", "dist", "mixed_precision", "dataset", "checkpoint",
        "validation", "rerun_state_machine", "comm_overlap", "tokenizer"})
    if (section == known) return true;
  return false;
}

}  // namespace

void apply_megatron_sections(const FlatSettings& settings, Target& target) {
  FlatSettings flat, model, vision, trainer;
  const bool dataset_length =
      std::any_of(settings.begin(), settings.end(), [](const FlatSetting& s) {
        return s.name == "dataset.seq_length" || s.name == "dataset.sequence_length";
      });
  std::string_view peft_target;
  const FlatSetting* peft_dim = nullptr;
  const FlatSetting* peft_modules = nullptr;
  for (const FlatSetting& setting : settings) {
    const std::string_view section = parent_of(setting.name), name = leaf_of(setting.name);
    if (name == "_target_" && section == "peft") peft_target = setting.value;
    if (section == "peft" && name == "dim") peft_dim = &setting;
    if ((section == "model.peft.lora_tuning") && name == "adapter_dim" && !is_none(setting.value))
      peft_dim = &setting, peft_target = "lora";
    if (section == "peft" && name == "target_modules") peft_modules = &setting;
    // An enum's number or a type, written as a call: "attention_backend: {_args_: [1], ...}",
    // "params_dtype: {_target_: torch.bfloat16}"
    if (setting.name == "model.attention_backend._args_") {
      model.push_back({"attention_backend", std::string(attention_backend(setting.value)),
                       setting.line, setting.offset});
      continue;
    }
    if (setting.name == "model.params_dtype._target_") {
      model.push_back({"params_dtype", setting.value, setting.line, setting.offset});
      continue;
    }
    if (section == "optimizer" && name == "overlap_param_gather")
      continue;  // ddp's is the one that counts
    if (setting.name == "model.seq_length" && dataset_length)
      continue;  // the longest the model takes, not what it is fed
    if (section == "trainer") {
      trainer.push_back({std::string(name), setting.value, setting.line, setting.offset});
    } else if (section == "model.vision_config" || section == "model.vision_transformer_config" ||
               section == "model.vision_transformer_config.vision_config") {
      vision.push_back({std::string(name), setting.value, setting.line, setting.offset});
    } else if (section == "model.optim" && name == "name") {
      model.push_back({"optim.name", setting.value, setting.line, setting.offset});
    } else if (plain_section(section) && name != "_target_" && name.substr(0, 1) != "_") {
      // Doubled names: the model's own value is what runs, so it goes last (the last one counts).
      auto& into = section == "model" ? model : flat;
      const bool bucket = section == "ddp" && name == "bucket_size";
      if ((section == "checkpoint" && name != "save_interval") ||
          (section == "tokenizer" && name != "vocab_size") || (section == "validation"))
        continue;
      if (section == "comm_overlap" && name != "overlap_grad_reduce" &&
          name != "overlap_param_gather")
        continue;
      if (section != "model" && is_none(setting.value))
        continue;  // a section that leaves it to another
      into.push_back({bucket ? "ddp_bucket_size" : std::string(name), setting.value, setting.line,
                      setting.offset});
    }
  }
  flat.insert(flat.end(), model.begin(), model.end());
  apply_megatron(flat, target);
  if (!vision.empty()) apply_rows(kVision, Names(vision), target);
  const Names run(trainer);
  apply_rows(kTrainer, run, target);
  const auto devices = run.integer("devices"), nodes = run.integer("num_nodes");
  if (devices && nodes && *devices > 0 && *nodes > 0 && *devices < 1024 && *nodes < 1'000'000)
    target.put(Key::world, *devices * *nodes, run.line("num_nodes"));
  const std::string precision = lower(run.text("precision"));
  if (contains(precision, "bf16"))
    target.put(Key::dtype, std::string("bf16"), run.line("precision"));
  else if (precision.substr(0, 2) == "16")
    target.put(Key::dtype, std::string("fp16"), run.line("precision"));
  else if (precision.substr(0, 2) == "32")
    target.put(Key::dtype, std::string("fp32"), run.line("precision"));
  if (peft_dim && contains(lower(peft_target), "lora")) {
    target.put_text(Key::lora_rank, peft_dim->value, peft_dim->line);
    if (peft_modules)
      apply_rows(std::array<NameRow, 1>{{{"peft.target_modules", Key::lora_targets, How::list}}},
                 Names({*peft_modules}), target);
  }
}

}  // namespace triage::parsers
