// Types, ranges and choices: NVIDIA/Megatron-LM@d98e8a6: megatron/training/arguments.py, core/transformer/transformer_config.py,
// core/optimizer/optimizer_config.py.
#include "parsers/config/megatron_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "parsers/base/text.hpp"
#include "parsers/config/target.hpp"

namespace triage::parsers {
namespace {

struct Whole {
  std::string_view name;
  std::int64_t least = 1;
};
constexpr std::array<Whole, 26> kWhole = {{{"num_query_groups"}, {"kv_channels"}, {"ffn_hidden_size"}, {"seq_length"}, {"max_position_embeddings"},
                                           {"micro_batch_size"}, {"global_batch_size"}, {"vocab_size"}, {"make_vocab_size_divisible_by"},
                                           {"tensor_model_parallel_size"}, {"pipeline_model_parallel_size"}, {"context_parallel_size"},
                                           {"expert_model_parallel_size"}, {"expert_tensor_parallel_size"}, {"num_layers_per_virtual_pipeline_stage"},
                                           {"num_virtual_stages_per_pipeline_rank"}, {"recompute_num_layers"}, {"moe_router_topk"},
                                           {"moe_ffn_hidden_size"}, {"moe_shared_expert_intermediate_size"}, {"q_lora_rank"}, {"kv_lora_rank"},
                                           {"qk_head_dim"}, {"qk_pos_emb_head_dim"}, {"v_head_dim"}, {"mtp_num_layers", 0}}};

struct Real {
  std::string_view name;
  double least, most;
};
constexpr std::array<Real, 4> kReal = {{{"attention_dropout", 0, 1}, {"hidden_dropout", 0, 1}, {"optimizer_offload_fraction", 0, 1}, {"moe_expert_capacity_factor", -1, 1e6}}};

struct Choice {
  std::string_view name, choices;   // separated by a blank
};
constexpr std::array<Choice, 8> kChoice = {{{"recompute_granularity", "full selective"}, {"recompute_method", "uniform block"},
                                            {"recompute_modules", "core_attn moe_act layernorm mla_up_proj mlp moe shared_experts gdn_norm_out gdp_in_proj gdp_qkv mhc"},
                                            {"transformer_impl", "local transformer_engine inference_optimized"}, {"normalization", "LayerNorm RMSNorm"},
                                            {"position_embedding_type", "learned_absolute rope yarn mrope relative none"},
                                            {"moe_token_dispatcher_type", "allgather alltoall flex"}, {"optimizer", "adam sgd muon dist_muon lion soap adaptive_muon"}}};

// A variable of a script is left for who knows its value.
bool open(std::string_view value) { return value.empty() || value == "None" || value.find('$') != std::string_view::npos; }

Error refused(const FlatSetting& option, const std::string& takes) {
  std::string flag = option.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  const std::string is = option.value == "True" ? "has no value" : "is '" + option.value.substr(0, 40) + "'";
  return Error(ErrorCode::conflict, "--" + flag + " " + is + ": Megatron-LM takes " + takes);
}

Status check(const FlatSetting& option) {
  const std::string_view value = trim(option.value);
  if (open(value)) return done();
  for (const Whole& whole : kWhole) {
    if (option.name != whole.name) continue;
    const auto number = read_integer(value);
    if (!number || *number < whole.least) return refused(option, "a whole number from " + std::to_string(whole.least));
  }
  for (const Real& real : kReal) {
    if (option.name != real.name) continue;
    const auto number = read_double(value);
    if (!number || !std::isfinite(*number) || *number < real.least || *number > real.most)
      return refused(option, real.most > 1 ? "a number" : "a number from 0 to 1");
  }
  for (const Choice& choice : kChoice) {
    if (option.name != choice.name) continue;
    const auto known = split(choice.choices, ' ');
    for (const std::string_view word : split(value, ' '))
      if (!word.empty() && std::find(known.begin(), known.end(), word) == known.end()) return refused(option, std::string(choice.choices));
  }
  return done();
}

}  // namespace

Status check_megatron_values(const FlatSettings& options) {
  for (const FlatSetting& option : options) TRIAGE_CHECK(check(option));
  const Names names(options);
  const auto layers = names.integer("num_layers"), chunk = names.integer("num_layers_per_virtual_pipeline_stage"),
             stages = names.integer("pipeline_model_parallel_size");
  if (layers && chunk && stages && *layers > 0 && *chunk > 0 && *stages > 0 && *layers % *stages == 0 && (*layers / *stages) % *chunk != 0)
    return Error(ErrorCode::conflict, std::to_string(*layers / *stages) + " layers of a pipeline stage are not divisible by num_layers_per_virtual_pipeline_stage " + std::to_string(*chunk));
  return done();
}

}  // namespace triage::parsers
