// Sources: the models' config.json as published with them (huggingface.co repositories named in the table), torchtitan's flavours
// (torchtitan/models/llama3/__init__.py).
#include "signatures/memory/known_models.hpp"

#include <string>

#include "parsers/base/text.hpp"
#include "signatures/memory/shape.hpp"

namespace triage::signatures::memory {

using parsers::Key;

namespace {

struct Known {
  std::string_view names;  // separated by blanks; letters and digits only, as folded() gives them
  std::string_view type;   // model_type of config.json
  Count hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
  bool tied;
  Count experts, top, expert_ffn, shared_ffn, dense_layers;
};

constexpr Known kModels[] = {
    {"llama27b llama27bhf", "llama", 4096, 32, 32, 32, 128, 11008, 32000, false, 0, 0, 0, 0, 0},
    {"llama213b llama213bhf", "llama", 5120, 40, 40, 40, 128, 13824, 32000, false, 0, 0, 0, 0, 0},
    {"llama270b llama270bhf", "llama", 8192, 80, 64, 8, 128, 28672, 32000, false, 0, 0, 0, 0, 0},
    {"llama321b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, true, 0, 0, 0, 0, 0},
    {"llama323b", "llama", 3072, 28, 24, 8, 128, 8192, 128256, true, 0, 0, 0, 0, 0},
    {"llama38b llama318b", "llama", 4096, 32, 32, 8, 128, 14336, 128256, false, 0, 0, 0, 0, 0},
    {"llama370b llama3170b llama3370b", "llama", 8192, 80, 64, 8, 128, 28672, 128256, false, 0, 0, 0, 0, 0},
    {"llama3405b llama31405b", "llama", 16384, 126, 128, 8, 128, 53248, 128256, false, 0, 0, 0, 0, 0},
    {"mistral7b mistral7bv01", "mistral", 4096, 32, 32, 8, 128, 14336, 32000, false, 0, 0, 0, 0, 0},
    {"mistral7bv03", "mistral", 4096, 32, 32, 8, 128, 14336, 32768, false, 0, 0, 0, 0, 0},
    {"mixtral8x7b mixtral8x7bv01", "mixtral", 4096, 32, 32, 8, 128, 14336, 32000, false, 8, 2, 14336, 0, 0},
    {"mixtral8x22b mixtral8x22bv01", "mixtral", 6144, 56, 48, 8, 128, 16384, 32768, false, 8, 2, 16384, 0, 0},
    {"qwen205b qwen2505b", "qwen2", 896, 24, 14, 2, 64, 4864, 151936, true, 0, 0, 0, 0, 0},
    {"qwen215b qwen2515b", "qwen2", 1536, 28, 12, 2, 128, 8960, 151936, true, 0, 0, 0, 0, 0},
    {"qwen253b", "qwen2", 2048, 36, 16, 2, 128, 11008, 151936, true, 0, 0, 0, 0, 0},
    {"qwen27b qwen257b", "qwen2", 3584, 28, 28, 4, 128, 18944, 152064, false, 0, 0, 0, 0, 0},
    {"qwen2514b", "qwen2", 5120, 48, 40, 8, 128, 13824, 152064, false, 0, 0, 0, 0, 0},
    {"qwen2532b", "qwen2", 5120, 64, 40, 8, 128, 27648, 152064, false, 0, 0, 0, 0, 0},
    {"qwen272b qwen2572b", "qwen2", 8192, 80, 64, 8, 128, 29568, 152064, false, 0, 0, 0, 0, 0},
    {"qwen306b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151936, true, 0, 0, 0, 0, 0},
    {"qwen317b", "qwen3", 2048, 28, 16, 8, 128, 6144, 151936, true, 0, 0, 0, 0, 0},
    {"qwen34b", "qwen3", 2560, 36, 32, 8, 128, 9728, 151936, true, 0, 0, 0, 0, 0},
    {"qwen38b", "qwen3", 4096, 36, 32, 8, 128, 12288, 151936, false, 0, 0, 0, 0, 0},
    {"qwen314b", "qwen3", 5120, 40, 40, 8, 128, 17408, 151936, false, 0, 0, 0, 0, 0},
    {"qwen332b", "qwen3", 5120, 64, 64, 8, 128, 25600, 151936, false, 0, 0, 0, 0, 0},
    {"qwen330ba3b", "qwen3_moe", 2048, 48, 32, 4, 128, 6144, 151936, false, 128, 8, 768, 0, 0},
    {"qwen3235ba22b", "qwen3_moe", 4096, 94, 64, 4, 128, 12288, 151936, false, 128, 8, 1536, 0, 0},
    {"gptoss20b", "gpt_oss", 2880, 24, 64, 8, 64, 2880, 201088, false, 32, 4, 2880, 0, 0},
    {"gptoss120b", "gpt_oss", 2880, 36, 64, 8, 64, 2880, 201088, false, 128, 4, 2880, 0, 0},
    {"deepseekv3 deepseekr1 deepseekv31 deepseekv3base", "deepseek_v3", 7168, 61, 128, 128, 0, 18432, 129280, false, 256, 8, 2048, 2048, 3},
    {"deepseekv2lite", "deepseek_v2", 2048, 27, 16, 16, 0, 10944, 102400, false, 64, 6, 1408, 2816, 1},
};

// Lower case, letters and digits only, what stands before a slash dropped, endings of instruction-tuned versions dropped.
std::string folded(std::string_view name) {
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out;
  for (const char c : name.substr(0, 120))
    if (parsers::is_alnum(c)) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (out.substr(0, 9) == "metallama") out.erase(0, 4);
  for (const std::string_view end : {"instruct2507", "thinking2507", "instruct", "base", "chat", "bf16", "hf", "it"})
    if (out.size() > end.size() + 3 && std::string_view(out).substr(out.size() - end.size()) == end) {
      out.resize(out.size() - end.size());
      break;
    }
  return out;
}

const Known* find(std::string_view name) {
  const std::string wanted = folded(name);
  if (wanted.size() < 4) return nullptr;
  for (const Known& known : kModels) {
    std::string_view names = known.names;
    while (!names.empty()) {
      const auto blank = names.find(' ');
      if (names.substr(0, blank) == wanted) return &known;
      if (blank == std::string_view::npos) break;
      names.remove_prefix(blank + 1);
    }
  }
  return nullptr;
}

bool starts(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

class Filler {
 public:
  Filler(parsers::RunConfig& config, std::string origin) : config_(config), origin_(std::move(origin)) {}
  void number(Key key, Count value) {
    if (!config_.has(key)) config_.set(key, value, origin_);
  }
  void flag(Key key, bool value) {
    if (!config_.has(key)) config_.set(key, value, origin_);
  }
  void word(Key key, std::string value) {
    if (!config_.has(key)) config_.set(key, std::move(value), origin_);
  }

 private:
  parsers::RunConfig& config_;
  std::string origin_;
};

std::string raw_value(const parsers::RunConfig& config, std::string_view name) {
  for (const std::string_view before : {"", "model_config."}) {
    const auto found = config.raw().find(std::string(before) + std::string(name));
    if (found != config.raw().end()) return parsers::lower(found->second.value);
  }
  return {};
}

// A part of a config.json ("text_config") is written without what equals the defaults of its class (transformers: configuration_utils.py,
// to_diff_dict): models/*/configuration_*.py. Outer parts are written whole.
struct PartDefault {
  std::string_view type;
  Count hidden, ffn, layers, heads, kv_heads, head_dim, vocab;
};
constexpr PartDefault kParts[] = {
    {"llama", 4096, 11008, 32, 32, 32, 0, 32000},      {"mistral", 4096, 14336, 32, 32, 8, 128, 32000},
    {"qwen2", 4096, 22016, 32, 32, 32, 0, 151936},     {"qwen3", 4096, 22016, 32, 32, 32, 128, 151936},
    {"gemma3_text", 2304, 9216, 26, 8, 4, 256, 262208}, {"gemma2", 2304, 9216, 26, 8, 4, 256, 256000},
    {"gemma", 3072, 24576, 28, 16, 16, 256, 256000},   {"phi3", 3072, 8192, 32, 32, 32, 0, 32064},
    {"qwen2_5_vl_text", 8192, 29568, 80, 64, 8, 0, 152064}, {"qwen2_vl_text", 8192, 29568, 80, 64, 8, 0, 152064},
    {"qwen3_vl_text", 4096, 22016, 32, 32, 32, 128, 151936}, {"qwen3_vl_moe_text", 2048, 5632, 24, 16, 16, 128, 151936},
};

void complete_part(parsers::RunConfig& config, Assumptions& assumptions) {
  const std::string inner = raw_value(config, "text_config.model_type");
  if (inner.empty()) return;
  for (const PartDefault& part : kParts) {
    if (part.type != inner) continue;
    std::string taken;
    const auto fill = [&](Key key, Count value) {
      if (value <= 0 || config.has(key)) return;
      config.set(key, value, "default of model type " + inner);
      taken += (taken.empty() ? "" : ", ") + std::string(parsers::key_info(key).name) + " " + std::to_string(value);
    };
    const bool own_heads = config.has(Key::heads);
    fill(Key::hidden, part.hidden);
    fill(Key::ffn, part.ffn);
    fill(Key::layers, part.layers);
    fill(Key::heads, part.heads);
    fill(Key::kv_heads, own_heads && part.kv_heads == part.heads ? config.integer(Key::heads).value_or(0) : part.kv_heads);
    fill(Key::head_dim, part.head_dim);
    fill(Key::vocab, part.vocab);
    if (!taken.empty()) assume(assumptions, "model_type", taken + ": defaults of " + inner + ", which text_config leaves out");
    return;
  }
}

// Decoders without a gated MLP: models/{opt,bloom,falcon,gpt_neox,phi,gpt_bigcode,starcoder2}/configuration_*.py.
void complete_older(const std::string& type, parsers::RunConfig& config) {
  Filler fill(config, "default of model type " + type);
  const auto hidden = config.integer(Key::hidden), heads = config.integer(Key::heads);
  const bool biased = type == "opt" || type == "bloom" || type == "gpt_neox" || type == "phi" || type == "gpt_bigcode" || type == "starcoder2";
  if (!biased && type != "falcon") return;
  fill.flag(Key::linear_bias, biased ? raw_value(config, "use_bias") != "false" : raw_value(config, "bias") == "true");
  fill.flag(Key::gated_mlp, false);
  fill.word(Key::norm, "layernorm");
  fill.flag(Key::tied_embeddings, type != "gpt_neox" && type != "phi");
  if (type == "opt" || type == "gpt_bigcode") fill.word(Key::position_embedding, "learned_absolute");
  if (hidden && *hidden > 0 && *hidden < (1 << 22)) fill.number(Key::ffn, 4 * *hidden);
  if (heads) fill.number(Key::kv_heads, raw_value(config, "multi_query") == "true" && raw_value(config, "new_decoder_architecture") != "true" ? 1 : *heads);
}

// Defaults of transformers' configuration classes for what a config.json of that type leaves out.
void complete_from_type(const std::string& type, parsers::RunConfig& config) {
  Filler fill(config, "default of model type " + type);
  if (starts(type, "qwen3")) {
    fill.flag(Key::qk_norm, true);
    if (!starts(type, "qwen3_next") && config.has(Key::hidden)) fill.number(Key::head_dim, 128);
  }
  if (starts(type, "gemma") && config.has(Key::hidden)) fill.number(Key::head_dim, 256);
  if (type == "olmoe" || type == "olmo2" || type == "olmo3" || type == "exaone4" || starts(type, "hunyuan_v1")) fill.flag(Key::qk_norm, true);
  if (type == "gpt_oss") fill.number(Key::head_dim, 64), fill.flag(Key::qkv_bias, true);
  if (starts(type, "gemma")) fill.flag(Key::tied_embeddings, true);
  if (starts(type, "gemma3")) fill.flag(Key::qk_norm, true);
  complete_older(type, config);
  // Classes whose linear layers have no bias unless the file says so, and whose embedding is not tied.
  for (const std::string_view head : {"llama", "mistral", "mixtral", "ministral", "qwen2", "qwen3", "gemma", "deepseek_v", "gpt_oss", "phi3", "olmo", "glm4", "internlm",
                                      "internvl", "llava", "pixtral", "granite", "smollm", "exaone", "cohere"})
    if (starts(type, head)) {
      fill.flag(Key::linear_bias, false);
      if (head != "cohere" && head != "granite" && head != "smollm") fill.flag(Key::tied_embeddings, false);
      break;
    }
  // Llama 4: intermediate_size is the width of an expert and of the shared one, intermediate_size_mlp that of dense layers.
  if (starts(type, "llama4") && config.integer(Key::experts).value_or(0) > 0)
    if (const auto width = config.integer(Key::expert_ffn)) fill.number(Key::shared_expert_ffn, *width);
  if (type == "nemotron") {
    fill.flag(Key::gated_mlp, false);
    fill.word(Key::norm, "layernorm");
    fill.flag(Key::linear_bias, false);
    fill.flag(Key::tied_embeddings, false);
  }
  if (type == "arcee") fill.flag(Key::gated_mlp, false), fill.flag(Key::linear_bias, false), fill.flag(Key::tied_embeddings, false);
  if (type == "seed_oss") fill.flag(Key::qkv_bias, true), fill.flag(Key::linear_bias, false);
  if (type == "gpt2") {
    fill.flag(Key::tied_embeddings, true);
    fill.flag(Key::linear_bias, true);
    fill.flag(Key::gated_mlp, false);
    fill.word(Key::norm, "layernorm");
    fill.word(Key::position_embedding, "learned_absolute");
    if (const auto hidden = config.integer(Key::hidden); hidden && *hidden > 0 && *hidden < (1 << 22)) fill.number(Key::ffn, 4 * *hidden);
    if (const auto heads = config.integer(Key::heads)) fill.number(Key::kv_heads, *heads);
  }
  if (starts(type, "deepseek_v") && config.has(Key::mla_kv_rank)) fill.flag(Key::mla, true);
}

}  // namespace

void complete_from_known_model(parsers::RunConfig& config, Assumptions& assumptions) {
  const std::string type = config.text(Key::model_type).value_or("");
  if (type.empty()) return;
  complete_part(config, assumptions);
  complete_from_type(type, config);
  if (config.has(Key::layers) && config.has(Key::hidden)) return;
  const Known* known = find(type);
  if (!known) return;
  Filler fill(config, "published shape of " + type);
  fill.number(Key::hidden, known->hidden);
  fill.number(Key::layers, known->layers);
  fill.number(Key::heads, known->heads);
  fill.number(Key::kv_heads, known->kv_heads);
  if (known->head_dim > 0) fill.number(Key::head_dim, known->head_dim);
  fill.number(Key::ffn, known->ffn);
  fill.number(Key::vocab, known->vocab);
  fill.flag(Key::tied_embeddings, known->tied);
  fill.flag(Key::gated_mlp, true);
  fill.flag(Key::linear_bias, false);
  fill.word(Key::norm, "rmsnorm");
  if (known->type == "qwen2" || known->type == "gpt_oss") fill.flag(Key::qkv_bias, true);
  if (starts(known->type, "qwen3")) fill.flag(Key::qk_norm, true);
  if (known->experts > 0) {
    fill.number(Key::experts, known->experts);
    fill.number(Key::experts_per_token, known->top);
    fill.number(Key::expert_ffn, known->expert_ffn);
    fill.number(Key::shared_expert_ffn, known->shared_ffn);
    fill.number(Key::dense_layers, known->dense_layers);
  }
  if (starts(known->type, "deepseek")) {
    fill.flag(Key::mla, true);
    fill.number(Key::mla_q_rank, known->type == "deepseek_v3" ? 1536 : 0);
    fill.number(Key::mla_kv_rank, 512);
    fill.number(Key::mla_nope_dim, 128);
    fill.number(Key::mla_rope_dim, 64);
    fill.number(Key::mla_v_dim, 128);
  }
  config.set(Key::model_type, std::string(known->type), "published shape of " + type);
  assume(assumptions, "model_type", "the shape is that published for " + type.substr(0, 120) + ": the settings do not state it");
}

}  // namespace triage::signatures::memory
