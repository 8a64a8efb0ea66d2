// Names of huggingface/transformers: src/transformers/training_args.py (TrainingArguments, also
// printed by accelerate scripts, TRL's SFTConfig and LLaMA-Factory) and the models' config.json.
#include <algorithm>
#include <array>

#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"

namespace triage::parsers {
namespace {

constexpr NameRow kTraining[] = {
    {"per_device_train_batch_size", Key::micro_batch},
    {"per_gpu_train_batch_size", Key::micro_batch},
    {"per_device_eval_batch_size", Key::eval_micro_batch},
    {"gradient_accumulation_steps", Key::gradient_accumulation},
    {"max_steps", Key::train_steps, How::positive},
    {"dataloader_num_workers", Key::dataloader_workers},
    {"dataloader_pin_memory", Key::pin_memory},
    {"torch_compile", Key::compile},
    {"torch_empty_cache_steps", Key::empty_cache_steps},
    {"packing", Key::packed_sequences},
    {"neat_packing", Key::packed_sequences},
    {"max_seq_length", Key::seq_length},
    {"max_seq_len", Key::seq_length},
    {"model_max_length", Key::seq_length},
    {"cutoff_len", Key::seq_length},
    {"block_size", Key::seq_length},
    {"max_length", Key::seq_length},
    {"attn_implementation", Key::attention},
    {"model_init_kwargs.attn_implementation", Key::attention},
    {"model_init_kwargs.torch_dtype", Key::dtype, How::dtype},
    {"model_init_kwargs.dtype", Key::dtype, How::dtype},
    {"torch_dtype", Key::dtype, How::dtype},
    {"lora_r", Key::lora_rank, How::positive},
    {"lora_rank", Key::lora_rank, How::positive},
    {"lora_target", Key::lora_targets, How::list},
    {"lora_target_modules", Key::lora_targets, How::list},
    {"freeze_vision_tower", Key::freeze_vision},
    {"freeze_multi_modal_projector", Key::freeze_projector},
    {"freeze_language_model", Key::freeze_language},
};

// transformers: OptimizerNames
void apply_optimizer(const Names& names, Target& target) {
  if (names.yes("adafactor")) {
    target.put(Key::optimizer, std::string("adafactor"), names.line("adafactor"));
    return;
  }
  std::string name = lower(enum_value(names.text("optim")));
  if (name.empty()) return;
  const std::uint64_t line = names.line("optim");
  if (name == "adamw_torch" || name == "adamw_hf") target.put(Key::optimizer_fused, false, line);
  if (name == "adamw_torch_fused" || name == "adamw_apex_fused")
    target.put(Key::optimizer_fused, true, line);
  if (contains(name, "adamw") && (contains(name, "8bit")))
    name = "adamw_8bit";
  else if (contains(name, "adamw") && contains(name, "4bit"))
    name = "adamw_4bit";
  else if (contains(name, "paged_adamw") || name.substr(0, 5) == "adamw")
    name = "adamw";
  else if (contains(name, "lion") && contains(name, "8bit"))
    name = "lion_8bit";
  else if (contains(name, "lion"))
    name = "lion";
  target.put(Key::optimizer, name, line);
}

void apply_fsdp(const Names& names, Target& target) {
  const FlatSetting* fsdp = names.find("fsdp");
  std::string words;
  if (fsdp) words = lower(fsdp->value);
  const bool on = fsdp && !is_none(fsdp->value) && words != "[]" && !is_false(fsdp->value);
  if (fsdp && !on) target.put(Key::fsdp, std::string("none"), fsdp->line);
  if (on) {
    const auto version = names.integer(
        names.has("fsdp_config.version") ? "fsdp_config.version" : "fsdp_config.fsdp_version");
    target.put(Key::fsdp, std::string(version == 2 ? "fsdp2" : "fsdp1"), fsdp->line);
    add_framework(target.config(), "fsdp");
    for (const std::string_view strategy :
         {"hybrid_shard_zero2", "hybrid_shard", "shard_grad_op", "full_shard", "no_shard"})
      if (contains(words, strategy)) {
        std::string upper(strategy);
        std::transform(upper.begin(), upper.end(), upper.begin(),
                       [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
        target.put(Key::fsdp_strategy,
                   upper == "HYBRID_SHARD_ZERO2" ? std::string("_HYBRID_SHARD_ZERO2") : upper,
                   fsdp->line);
        break;
      }
    target.put(Key::fsdp_offload, contains(words, "offload"), fsdp->line);
    for (const std::string_view name :
         {"fsdp_config.transformer_layer_cls_to_wrap",
          "fsdp_config.fsdp_transformer_layer_cls_to_wrap", "fsdp_transformer_layer_cls_to_wrap"})
      if (const std::string_view wrap = names.text(name); !wrap.empty() && wrap != "[]") {
        std::string classes;
        for (const char c : wrap)
          if (c != '[' && c != ']' && c != '\'' && c != '"') classes += c;
        target.put(Key::fsdp_wrap, classes, names.line(name));
        break;
      }
    for (const std::string_view name :
         {"fsdp_config.activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing"})
      if (names.yes(name)) target.put(Key::recompute, std::string("full"), names.line(name));
    for (const std::string_view name :
         {"fsdp_config.reshard_after_forward", "fsdp_config.fsdp_reshard_after_forward"})
      if (names.yes(name) || names.no(name))
        target.put(Key::reshard_after_forward, names.yes(name), names.line(name));
  }
}

// Models whose MLP is gated (SwiGLU, GeGLU) whatever hidden_act says.
bool gated_model(std::string_view type) {
  for (const std::string_view head :
       {"llama",   "mistral",  "mixtral",   "qwen2",    "qwen3",   "gemma", "deepseek",
        "phi3",    "olmo",     "cohere",    "internlm", "chatglm", "glm4",  "granite",
        "yi",      "baichuan", "smollm",    "gpt_oss",  "minicpm", "dbrx",  "ernie4",
        "hunyuan", "exaone",   "ministral", "pixtral"})
    if (type.substr(0, head.size()) == head) return true;
  return false;
}

constexpr NameRow kShape[] = {
    {"num_hidden_layers", Key::layers},
    {"n_layer", Key::layers},
    {"n_layers", Key::layers},
    {"num_layers", Key::layers},
    {"hidden_size", Key::hidden},
    {"n_embd", Key::hidden},
    {"d_model", Key::hidden},
    {"intermediate_size", Key::ffn},
    {"n_inner", Key::ffn},
    {"ffn_dim", Key::ffn},
    {"ffn_hidden_size", Key::ffn},
    {"d_ff", Key::ffn},
    {"num_attention_heads", Key::heads},
    {"n_head", Key::heads},
    {"n_heads", Key::heads},
    {"num_heads", Key::heads},
    {"num_key_value_heads", Key::kv_heads},
    {"multi_query_group_num", Key::kv_heads},
    {"head_dim", Key::head_dim},
    {"vocab_size", Key::vocab},
    {"padded_vocab_size", Key::padded_vocab},
    {"max_position_embeddings", Key::max_positions},
    {"n_positions", Key::max_positions},
    {"attention_bias", Key::qkv_bias},
    {"mlp_bias", Key::linear_bias},
    {"tie_embedding_weights", Key::tied_embeddings},
    {"decoder_sparse_step", Key::moe_layer_frequency},
    {"interleave_moe_layer_step", Key::moe_layer_frequency},
    {"attention_dropout", Key::attention_dropout},
    {"attn_pdrop", Key::attention_dropout},
    {"resid_pdrop", Key::hidden_dropout},
    {"hidden_dropout_prob", Key::hidden_dropout},
    {"num_nextn_predict_layers", Key::mtp_layers},
    {"num_experts", Key::experts},
    {"num_local_experts", Key::experts},
    {"n_routed_experts", Key::experts},
    {"num_experts_per_tok", Key::experts_per_token},
    {"num_experts_per_token", Key::experts_per_token},
    {"moe_num_experts", Key::experts},
    {"moe_k", Key::experts_per_token},
    {"moe_layer_start_index", Key::dense_layers},
    {"moe_intermediate_size", Key::expert_ffn},
    {"shared_expert_intermediate_size", Key::shared_expert_ffn},
    {"first_k_dense_replace", Key::dense_layers},
    {"q_lora_rank", Key::mla_q_rank},
    {"kv_lora_rank", Key::mla_kv_rank},
    {"qk_nope_head_dim", Key::mla_nope_dim},
    {"qk_rope_head_dim", Key::mla_rope_dim},
    {"v_head_dim", Key::mla_v_dim},
    {"torch_dtype", Key::dtype, How::dtype},
    {"dtype", Key::dtype, How::dtype},
    {"_attn_implementation", Key::attention},
};

constexpr NameRow kTower[] = {
    {"depth", Key::vision_layers},
    {"num_hidden_layers", Key::vision_layers},
    {"layers", Key::vision_layers},
    {"embed_dim", Key::vision_hidden},
    {"hidden_size", Key::vision_hidden},
    {"intermediate_size", Key::vision_ffn},
    {"num_heads", Key::vision_heads},
    {"num_attention_heads", Key::vision_heads},
    {"patch_size", Key::vision_patch},
    {"temporal_patch_size", Key::vision_temporal_patch},
    {"spatial_patch_size", Key::vision_patch},
    {"spatial_merge_size", Key::vision_merge},
    {"num_position_embeddings", Key::vision_positions},
    {"image_size", Key::vision_image_size},
};

FlatSettings under(const FlatSettings& settings, std::string_view prefix) {
  FlatSettings out;
  for (const FlatSetting& setting : settings)
    if (setting.name.size() > prefix.size() &&
        std::string_view(setting.name).substr(0, prefix.size()) == prefix)
      out.push_back(
          {setting.name.substr(prefix.size()), setting.value, setting.line, setting.offset});
  return out;
}

void apply_moe_shape(const Names& names, Target& target) {
  std::string_view counted;
  for (const std::string_view name : {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (names.integer(name).value_or(0) > 0) counted = name;
  if (counted.empty()) return;
  // Mixtral and its kin: intermediate_size is the width of an expert.
  if (const auto width = names.integer("intermediate_size");
      width && !names.has("moe_intermediate_size"))
    target.put(Key::expert_ffn, *width, names.line("intermediate_size"));
  const auto shared = names.integer("n_shared_experts"),
             width = names.integer("moe_intermediate_size");
  if (shared && width && *shared >= 0 && *shared < 1024 && *width < (1 << 30))
    target.put(Key::shared_expert_ffn, *shared * *width, names.line("n_shared_experts"));
  // transformers: models/ernie4_5_moe/modeling_ernie4_5_moe.py: the shared experts are one MLP.
  if (const auto joined = names.integer("moe_num_shared_experts"); joined && width && *joined >= 0 && *joined < 1024 && *width < (1 << 30))
    target.put(Key::shared_expert_ffn, *joined * *width, names.line("moe_num_shared_experts"));
}

// A number, or the first of a list of two (InternVL: "image_size": [448, 448]).
std::optional<std::int64_t> one_side(const Names& names, std::string_view name) {
  if (const auto number = names.integer(name)) return number;
  std::string_view text = trim(names.text(name));
  if (text.empty() || text.front() != '[') return std::nullopt;
  text = trim(text.substr(1, text.find_first_of(",]") - 1));
  return read_integer(text);
}

// What a family fixes and its config.json leaves out or states in another way: Qwen2.5-VL's tower is gated, Qwen2-VL's MLP is
// mlp_ratio times as wide, towers of fixed image size (CLIP, InternViT, SigLIP) have one position a patch (and one for the class).
void complete_tower(std::string_view type, const Names& vision, Target& target) {
  const auto starts = [&](std::string_view head) { return type.substr(0, head.size()) == head; };
  if (starts("qwen2_5_vl") || starts("qwen2_5_omni"))
    target.put(Key::vision_gated_mlp, true, vision.line("intermediate_size"));
  const auto ratio = vision.integer("mlp_ratio"), width = target.config().integer(Key::vision_hidden);
  if (ratio && width && *ratio > 0 && *ratio < 64 && *width > 0 && *width < (1 << 24) && !vision.has("intermediate_size"))
    target.put(Key::vision_ffn, *ratio * *width, vision.line("mlp_ratio"));
  const auto image = one_side(vision, "image_size"), patch = one_side(vision, "patch_size");
  if (image && !vision.integer("image_size") && *image > 0) target.put(Key::vision_image_size, *image, vision.line("image_size"));
  if (patch && !vision.integer("patch_size") && *patch > 0) target.put(Key::vision_patch, *patch, vision.line("patch_size"));
  if (image && patch && *patch > 0 && *image >= *patch && *image < (1 << 20) && !vision.has("num_position_embeddings")) {
    const std::int64_t side = *image / *patch;
    target.put(Key::vision_positions, side * side + (starts("gemma3") ? 0 : 1), vision.line("image_size"));
  }
  if (starts("internvl") && !vision.has("spatial_merge_size"))
    target.put(Key::vision_merge, std::int64_t{2}, vision.line("image_size"));  // downsample_ratio 0.5
}

}  // namespace

void apply_training_arguments(const FlatSettings& settings, Target& target) {
  const Names names(settings);
  apply_rows(kTraining, names, target);
  apply_optimizer(names, target);
  apply_fsdp(names, target);
  if (names.yes("gradient_checkpointing"))
    target.put(Key::recompute, std::string("full"), names.line("gradient_checkpointing"));
  else if (names.no("gradient_checkpointing") && target.config().text(Key::recompute) != "full")
    target.put(Key::recompute, std::string("none"), names.line("gradient_checkpointing"));
  if (names.yes("bf16"))
    target.put(Key::autocast, std::string("bf16"), names.line("bf16"));
  else if (names.yes("fp16"))
    target.put(Key::autocast, std::string("fp16"), names.line("fp16"));
  if (names.yes("pure_bf16")) target.put(Key::dtype, std::string("bf16"), names.line("pure_bf16"));
  if (names.yes("use_liger_kernel") || names.yes("enable_liger_kernel"))
    target.put(
        Key::loss_fusion, std::string("liger"),
        names.line(names.has("use_liger_kernel") ? "use_liger_kernel" : "enable_liger_kernel"));
  const std::string_view save = enum_value(names.text("save_strategy"));
  if (const auto steps = names.integer("save_steps");
      steps && *steps > 0 && (save.empty() || lower(save) == "steps"))
    target.put(Key::save_interval, *steps, names.line("save_steps"));
  if (names.yes("load_in_4bit") || names.text("quantization_bit") == "4")
    target.put(Key::quantization, std::string("4bit"),
               names.line(names.has("load_in_4bit") ? "load_in_4bit" : "quantization_bit"));
  else if (names.yes("load_in_8bit") || names.text("quantization_bit") == "8")
    target.put(Key::quantization, std::string("8bit"),
               names.line(names.has("load_in_8bit") ? "load_in_8bit" : "quantization_bit"));
  if (const std::string_view deepspeed = names.text("deepspeed");
      !deepspeed.empty() && !is_false(deepspeed))
    add_framework(target.config(), "deepspeed");
}

void apply_model_config(const FlatSettings& settings, Target& target) {
  // The decoder of a vision-language model stands in its own part; the outer values are the model's
  // own where both exist.
  FlatSettings text;
  for (const std::string_view part :
       {"text_config.", "llm_config.", "language_config.", "thinker_config.text_config."}) {
    text = under(settings, part);
    if (!text.empty()) break;
  }
  const Names outer(settings);
  // A part is written without what its class has by default: it may hold a few values only.
  const bool nested = !text.empty() && (!outer.has("hidden_size") || std::any_of(text.begin(), text.end(), [](const FlatSetting& s) {
                                          return s.name == "hidden_size" || s.name == "num_hidden_layers";
                                        }));
  const Names names(nested ? text : settings);
  apply_rows(kShape, names, target);
  const std::string_view type = outer.text("model_type"),
                         inner = names.text("model_type").empty() ? type : names.text("model_type");
  target.put_text(Key::model_type, type, outer.line("model_type"));
  if (nested && (outer.has("torch_dtype") || outer.has("dtype")))
    target.put_text(Key::dtype,
                    dtype_name(outer.text(outer.has("dtype") ? "dtype" : "torch_dtype")),
                    outer.line("torch_dtype"));
  const Names& ties = outer.has("tie_word_embeddings") ? outer : names;
  if (ties.has("tie_word_embeddings"))
    target.put(Key::tied_embeddings, ties.yes("tie_word_embeddings"),
               ties.line("tie_word_embeddings"));
  // Falcon, GPT BigCode: one key/value head for all.
  if (names.yes("multi_query") && !names.yes("new_decoder_architecture"))
    target.put(Key::kv_heads, std::int64_t{1}, names.line("multi_query"));
  else if (names.integer("num_attention_heads") && !names.has("num_key_value_heads") &&
      !names.has("multi_query_group_num") && !names.has("num_kv_heads"))
    target.put(Key::kv_heads, *names.integer("num_attention_heads"),
               names.line("num_attention_heads"));
  else if (names.integer("n_head") && !names.has("num_attention_heads") &&
           !names.has("n_head_kv") && !names.has("num_kv_heads"))
    target.put(Key::kv_heads, *names.integer("n_head"), names.line("n_head"));
  if (names.has("n_inner") && names.text("n_inner").empty() && names.integer("n_embd"))
    target.put(Key::ffn, *names.integer("n_embd") * 4, names.line("n_inner"));
  if (gated_model(inner))
    target.put(Key::gated_mlp, true, names.line("hidden_act"));
  else if (inner == "gpt2" || inner == "opt" || inner == "bloom" || inner == "gpt_neox" ||
           inner == "bert" || inner == "roberta")
    target.put(Key::gated_mlp, false, outer.line("model_type"));
  if (names.has("rms_norm_eps"))
    target.put(Key::norm, std::string("rmsnorm"), names.line("rms_norm_eps"));
  else if (names.has("layer_norm_eps") || names.has("layer_norm_epsilon"))
    target.put(Key::norm, std::string("layernorm"),
               names.line(names.has("layer_norm_eps") ? "layer_norm_eps" : "layer_norm_epsilon"));
  if (inner.substr(0, 5) == "qwen2" && !names.has("attention_bias"))
    target.put(Key::qkv_bias, true, outer.line("model_type"));
  if (inner.substr(0, 5) == "qwen3" || inner.substr(0, 6) == "gemma3" || inner == "olmo2")
    target.put(Key::qk_norm, true, outer.line("model_type"));
  if (names.integer("kv_lora_rank")) target.put(Key::mla, true, names.line("kv_lora_rank"));
  if (const auto window = names.integer("sliding_window");
      window && !names.no("use_sliding_window"))
    target.put(Key::sliding_window, *window, names.line("sliding_window"));
  apply_moe_shape(names, target);
  for (const std::string_view part : {"vision_config.", "thinker_config.vision_config."}) {
    const FlatSettings tower = under(settings, part);
    if (tower.empty()) continue;
    const Names vision(tower);
    apply_rows(kTower, vision, target);
    // Qwen2-VL: "hidden_size" is the width after the merger, "embed_dim" that of the tower.
    if (const auto width = vision.integer("embed_dim"))
      target.put(Key::vision_hidden, *width, vision.line("embed_dim"));
    complete_tower(type, vision, target);
    if (const std::string_view deep = vision.text("deepstack_visual_indexes"); !deep.empty())
      target.put(Key::vision_mergers,
                 static_cast<std::int64_t>(
                     1 + (deep == "[]" ? 0 : std::count(deep.begin(), deep.end(), ',') + 1)),
                 vision.line("deepstack_visual_indexes"));
    break;
  }
}

}  // namespace triage::parsers
