// Names of AI-Hypercomputer/maxtext: MaxText/configs/base.yml. The base_* values are what was asked
// for, the others what is used.
#include <cmath>

#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"

namespace triage::parsers {
namespace {

constexpr NameRow kRows[] = {
    {"model_name", Key::model_type},
    {"num_decoder_layers", Key::layers},
    {"emb_dim", Key::hidden},
    {"mlp_dim", Key::ffn},
    {"num_query_heads", Key::heads},
    {"num_kv_heads", Key::kv_heads},
    {"head_dim", Key::head_dim},
    {"vocab_size", Key::vocab},
    {"logits_via_embedding", Key::tied_embeddings},
    {"max_target_length", Key::seq_length},
    {"gradient_accumulation_steps", Key::gradient_accumulation},
    {"global_batch_size_to_train_on", Key::global_batch},
    {"ici_tensor_parallelism", Key::tensor_parallel, How::positive},
    {"ici_pipeline_parallelism", Key::pipeline_parallel, How::positive},
    {"ici_context_parallelism", Key::context_parallel, How::positive},
    {"ici_expert_parallelism", Key::expert_parallel, How::positive},
    {"ici_fsdp_parallelism", Key::data_parallel_shard, How::positive},
    {"opt_type", Key::optimizer, How::lower},
    {"optimizer_memory_host_offload", Key::optimizer_offload},
    {"steps", Key::train_steps, How::positive},
    {"weight_dtype", Key::dtype, How::dtype},
    {"attention", Key::attention},
    {"checkpoint_period", Key::save_interval, How::positive},
    {"first_num_dense_layers", Key::dense_layers},
};

constexpr NameRow kMoe[] = {
    {"num_experts_per_tok", Key::experts_per_token},
    {"moe_mlp_dim", Key::expert_ffn},
};

}  // namespace

void apply_maxtext(const FlatSettings& settings, Target& target) {
  const Names names(settings);
  apply_rows(kRows, names, target);
  if (const auto batch = names.integer("per_device_batch_size"); batch && *batch > 0)
    target.put(Key::micro_batch, *batch, names.line("per_device_batch_size"));
  // One expert is MaxText's dense model.
  if (const auto experts = names.integer("num_experts")) {
    target.put(Key::experts, *experts > 1 ? *experts : 0, names.line("num_experts"));
    if (*experts > 1) apply_rows(kMoe, names, target);
  }
  const std::string_view policy = names.text("remat_policy");
  if (policy == "full")
    target.put(Key::recompute, std::string("full"), names.line("remat_policy"));
  else if (policy == "none")
    target.put(Key::recompute, std::string("none"), names.line("remat_policy"));
  else if (!policy.empty())
    target.put(Key::recompute, std::string("selective"), names.line("remat_policy"));
  else if (names.has("remat_policy"))
    target.put(Key::recompute, std::string("none"), names.line("remat_policy"));
  const std::string compute = dtype_name(names.text("dtype"));
  if (!compute.empty() && compute != dtype_name(names.text("weight_dtype")))
    target.put_text(Key::autocast, compute, names.line("dtype"));
  if (contains(names.text("quantization"), "fp8"))
    target.put(Key::fp8, std::string("hybrid"), names.line("quantization"));
  if (const std::string_view activations = names.text("mlp_activations"); !activations.empty())
    target.put(Key::gated_mlp, contains(activations, ","), names.line("mlp_activations"));
  if (const auto tiles = names.integer("num_vocab_tiling"); tiles && *tiles > 1) {
    target.put(Key::loss_fusion, std::string("chunked"), names.line("num_vocab_tiling"));
    target.put(Key::loss_chunks, *tiles, names.line("num_vocab_tiling"));
  }
}

}  // namespace triage::parsers
