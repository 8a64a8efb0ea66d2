#include "signatures/memory/shape.hpp"

#include <algorithm>
#include <array>

#include "signatures/memory/known_models.hpp"
#include "signatures/memory/layer_pattern.hpp"

namespace triage::signatures::memory {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Key;
using parsers::key_info;
using parsers::RunConfig;

namespace {

// limit: the largest width, depth or vocabulary that is computed with; products of three stay below 2^63.
constexpr Count kMaxSize = Count{1} << 24;
constexpr Count kMaxLayers = 1 << 14;

class Reader {
 public:
  Reader(const RunConfig& config, Assumptions& assumptions)
      : config_(config), assumptions_(assumptions) {}

  // 0 if absent.
  Count optional(Key key, Count most = kMaxSize) {
    const auto value = config_.integer(key);
    if (!value) return 0;
    if (*value < 0 || *value > most) {
      wrong(std::string(key_info(key).name) + " is " + std::to_string(*value));
      return 0;
    }
    return *value;
  }
  Count needed(Key key, Count most = kMaxSize) {
    const std::size_t before = wrong_.size();
    const Count value = optional(key, most);
    if (wrong_.size() == before && value == 0) {
      if (config_.integer(key) == 0)
        wrong(std::string(key_info(key).name) + " is 0");
      else if (!config_.has(key) && !misread(key))
        missing_.push_back(std::string(key_info(key).name));
    }
    return value;
  }
  // The program's own name is there, with a value that is no whole number (or one that no number holds): told, not taken for absent.
  bool misread(Key key) {
    struct Own {
      Key key;
      std::array<std::string_view, 4> names;
    };
    static constexpr std::array<Own, 9> kOwn = {{{Key::layers, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}},
                                                 {Key::hidden, {"hidden_size", "n_embd", "d_model", ""}},
                                                 {Key::heads, {"num_attention_heads", "n_head", "n_heads", ""}},
                                                 {Key::kv_heads, {"num_key_value_heads", "num_query_groups", "", ""}},
                                                 {Key::head_dim, {"head_dim", "kv_channels", "", ""}},
                                                 {Key::ffn, {"intermediate_size", "ffn_hidden_size", "n_inner", ""}},
                                                 {Key::vocab, {"vocab_size", "", "", ""}},
                                                 {Key::experts, {"num_experts", "num_local_experts", "n_routed_experts", ""}},
                                                 {Key::experts_per_token, {"num_experts_per_tok", "moe_router_topk", "", ""}}}};
    if (config_.has(key)) return false;
    for (const Own& own : kOwn) {
      if (own.key != key) continue;
      for (const std::string_view name : own.names)
        for (const std::string_view before : {"", "text_config.", "model_config.", "model_config.text_config."}) {
          if (name.empty()) continue;
          const std::string full = std::string(before) + std::string(name);
          const auto found = config_.raw().find(full);
          if (found == config_.raw().end()) {
            const auto inside = config_.raw().lower_bound(full + '.');
            if (inside == config_.raw().end() || !inside->first.starts_with(full + '.')) continue;
            wrong(std::string(key_info(key).name) + ": " + std::string(name) + " is an object (it holds '" + inside->first.substr(full.size() + 1, 40) + "'), where a whole number was expected");
            return true;
          }
          const std::string& value = found->second.value;
          if (value.empty() || value == "None" || value == "null" || value == "auto") continue;
          wrong(std::string(key_info(key).name) + ": " + std::string(name) + " is '" + value.substr(0, 40) + "', not a whole number that can be");
          variable_ = variable_ || value.starts_with('$');
          return true;
        }
    }
    return false;
  }
  bool flag(Key key, bool otherwise, std::string_view why) {
    if (const auto value = config_.boolean(key)) return *value;
    if (!why.empty()) assume(assumptions_, key_info(key).name, std::string(why));
    return otherwise;
  }
  void missing(std::string_view name) { missing_.emplace_back(name); }
  void wrong(std::string text) {
    if (std::find(wrong_.begin(), wrong_.end(), text) == wrong_.end()) wrong_.push_back(std::move(text));
  }
  Assumptions& assumptions() { return assumptions_; }

  parsers::Status status() const {
    const auto join = [](const std::vector<std::string>& list) {
      std::string text;
      for (const std::string& item : list) text += (text.empty() ? "" : ", ") + item;
      return text;
    };
    if (!wrong_.empty()) {
      Error error(ErrorCode::conflict, "the model's shape cannot be: " + join(wrong_));
      if (!variable_) return error;
      return std::move(error).help("variables of a shell script are not filled in: give the command as it ran (bash -x prints it)");
    }
    if (!missing_.empty())
      return Error(ErrorCode::not_found, "the model's shape is not known: missing " + join(missing_));
    return parsers::done();
  }

 private:
  const RunConfig& config_;
  Assumptions& assumptions_;
  std::vector<std::string> missing_, wrong_;
  bool variable_ = false;   // one of the wrong values is a variable of a shell
};

void read_attention(const RunConfig& config, Reader& read, ModelShape& shape) {
  shape.heads = read.needed(Key::heads);
  shape.kv_heads = read.optional(Key::kv_heads);
  read.misread(Key::kv_heads);
  if (config.integer(Key::kv_heads) == 0) read.wrong("kv_heads is 0");
  if (shape.kv_heads == 0) {
    shape.kv_heads = shape.heads;
    assume(read.assumptions(), "kv_heads", "as many key/value heads as query heads: not stated");
  }
  if (config.boolean(Key::mla) == true) {
    MlaShape mla;
    mla.q_rank = read.optional(Key::mla_q_rank);
    mla.kv_rank = read.needed(Key::mla_kv_rank);
    mla.nope_dim = read.needed(Key::mla_nope_dim);
    mla.rope_dim = read.needed(Key::mla_rope_dim);
    mla.v_dim = read.needed(Key::mla_v_dim);
    shape.mla = mla;
    shape.head_dim = mla.nope_dim + mla.rope_dim;
    return;
  }
  shape.head_dim = read.optional(Key::head_dim);
  read.misread(Key::head_dim);
  if (config.integer(Key::head_dim) == 0) read.wrong("head_dim is 0");
  if (shape.head_dim == 0 && shape.heads > 0 && shape.hidden > 0) {
    if (shape.hidden % shape.heads != 0)
      read.wrong("hidden " + std::to_string(shape.hidden) + " is not divisible by " +
                 std::to_string(shape.heads) + " heads, and head_dim is not given");
    else
      shape.head_dim = shape.hidden / shape.heads;
  }
  if (shape.heads > 0 && shape.kv_heads > 0 && shape.heads % shape.kv_heads != 0)
    read.wrong(std::to_string(shape.heads) + " heads are not divisible by " +
               std::to_string(shape.kv_heads) + " key/value heads");
}

void read_experts(const RunConfig& config, Reader& read, ModelShape& shape) {
  shape.experts = read.optional(Key::experts);
  read.misread(Key::experts);
  if (shape.experts == 0) return;
  shape.experts_per_token = read.needed(Key::experts_per_token);
  shape.expert_ffn = read.optional(Key::expert_ffn);
  shape.shared_expert_ffn = read.optional(Key::shared_expert_ffn);
  if (shape.experts_per_token > shape.experts)
    read.wrong("experts_per_token " + std::to_string(shape.experts_per_token) + " of " +
               std::to_string(shape.experts) + " experts");
  const std::string frequency = config.text(Key::moe_layer_frequency).value_or("");
  if (const auto pattern = layer_pattern(frequency, shape.layers)) {
    shape.moe_layer = *pattern;
  } else {
    shape.moe_layer.assign(static_cast<std::size_t>(shape.layers), true);
    if (!frequency.empty())
      assume(read.assumptions(), "moe_layer_frequency",
             "every layer has experts: '" + frequency.substr(0, 80) + "' is not understood");
  }
  const Count dense = std::min(read.optional(Key::dense_layers), shape.layers);
  for (Count i = 0; i < dense; ++i) shape.moe_layer[static_cast<std::size_t>(i)] = false;
}

void read_vision(const RunConfig& config, Reader& read, ModelShape& shape) {
  const Count layers = read.optional(Key::vision_layers, kMaxLayers);
  if (const auto part = config.raw().find("vision_config"); layers == 0 && part != config.raw().end() && !part->second.value.empty() &&
                                                            part->second.value != "None" && part->second.value != "null" && part->second.value != "{}")
    assume(read.assumptions(), "vision_layers", "a model of text only: vision_config is '" + part->second.value.substr(0, 40) + "', not a table");
  if (layers == 0) return;
  if (config.integer(Key::vision_heads) == 0) read.wrong("vision_heads is 0");
  VisionShape v;
  v.layers = layers;
  v.hidden = read.needed(Key::vision_hidden);
  v.ffn = read.optional(Key::vision_ffn);
  if (v.ffn == 0) {
    v.ffn = 4 * v.hidden;
    assume(read.assumptions(), "vision_ffn", "the tower's MLP is four times its width: not stated");
  }
  v.heads = std::max<Count>(1, read.optional(Key::vision_heads));
  v.patch = read.optional(Key::vision_patch);
  if (v.patch == 0) v.patch = 16;
  v.temporal_patch = std::max<Count>(1, read.optional(Key::vision_temporal_patch));
  v.merge = std::max<Count>(1, read.optional(Key::vision_merge));
  v.mergers = std::max<Count>(1, read.optional(Key::vision_mergers));
  v.positions = read.optional(Key::vision_positions);
  v.gated = read.flag(Key::vision_gated_mlp, false, "");
  v.frozen = read.flag(Key::freeze_vision, false, "");
  v.projector_frozen = read.flag(Key::freeze_projector, false, "");
  const Count height = read.optional(Key::image_grid_height, 1 << 14),
              width = read.optional(Key::image_grid_width, 1 << 14),
              images = read.optional(Key::images, 1 << 20);
  v.images = images;
  const Count side = read.optional(Key::vision_image_size, 1 << 20) / v.patch;
  if (height > 0 && width > 0)
    v.patches = std::max<Count>(1, images) * height * width;
  else if (images > 0 && side > 0)
    v.patches = images * side * side;
  else
    assume(read.assumptions(), "images",
           "no image in a micro batch: number and size of images are not stated");
  shape.vision = v;
}

}  // namespace

Count ModelShape::moe_layers() const {
  return static_cast<Count>(std::count(moe_layer.begin(), moe_layer.end(), true));
}

parsers::Result<ModelShape> model_shape(const RunConfig& given, Assumptions& assumptions) {
  RunConfig config = given;
  complete_from_known_model(config, assumptions);
  Reader read(config, assumptions);
  ModelShape shape;
  shape.model_type = config.text(Key::model_type).value_or("");
  shape.layers = read.needed(Key::layers, kMaxLayers);
  shape.hidden = read.needed(Key::hidden);
  read_attention(config, read, shape);
  read_experts(config, read, shape);
  shape.ffn = read.optional(Key::ffn);
  if (shape.experts > 0 && shape.expert_ffn == 0) {
    shape.expert_ffn = shape.ffn;
    if (shape.ffn == 0) read.missing(key_info(Key::expert_ffn).name);
  }
  if (shape.ffn == 0 && shape.moe_layers() < std::max<Count>(1, shape.layers))
    read.needed(Key::ffn);
  shape.vocab = read.optional(Key::vocab);
  shape.padded_vocab = read.optional(Key::padded_vocab);
  if (shape.vocab == 0 && shape.padded_vocab == 0) read.needed(Key::vocab);
  if (const Count divisor = read.optional(Key::vocab_divisor); divisor > 0)
    shape.vocab_divisor = divisor;
  shape.tied = read.flag(Key::tied_embeddings, false,
                         "embedding and output matrix are two: not stated");
  shape.gated = read.flag(Key::gated_mlp, true, "the MLP is gated (SwiGLU): not stated");
  shape.linear_bias = read.flag(Key::linear_bias, false, "linear layers have no bias: not stated");
  shape.qkv_bias = read.flag(Key::qkv_bias, shape.linear_bias, "");
  shape.layernorm = config.text(Key::norm).value_or("rmsnorm").substr(0, 5) == "layer";
  shape.qk_norm = read.flag(Key::qk_norm, false, "");
  if (config.text(Key::position_embedding).value_or("").substr(0, 7) == "learned")
    shape.learned_positions = read.optional(Key::max_positions);
  shape.sliding_window = read.optional(Key::sliding_window);
  shape.mtp_layers = read.optional(Key::mtp_layers, 64);
  shape.frozen = read.flag(Key::freeze_language, false, "");
  read_vision(config, read, shape);
  TRIAGE_CHECK(read.status());
  return shape;
}

// Attention: qkv projection h x (q + 2 kappa), output q x h. Multi-latent: down and up projections, their norms. Gated MLP 3 h f,
// else 2 h f. Sources: NVIDIA/Megatron-LM@d98e8a6: megatron/core/transformer/{attention,multi_latent_attention,mlp}.py,
// moe/{router,experts,shared_experts}.py.
ParameterCount layer_parameters(const ModelShape& s, bool moe) {
  ParameterCount count;
  const Count h = s.hidden, norm = s.norm_bias() ? 2 : 1;
  if (s.mla) {
    const MlaShape& m = *s.mla;
    const Count qk = m.nope_dim + m.rope_dim;
    if (m.q_rank > 0) {
      count.replicated += h * m.q_rank + norm * m.q_rank;
      count.tensor += m.q_rank * s.heads * qk;
    } else {
      count.tensor += h * s.heads * qk;
    }
    count.replicated += h * (m.kv_rank + m.rope_dim) + norm * m.kv_rank;
    count.tensor += m.kv_rank * s.heads * (m.nope_dim + m.v_dim) + s.heads * m.v_dim * h;
  } else {
    const Count q = s.query_width(), k = s.key_width();
    count.tensor += h * (q + 2 * k) + q * h;
    if (s.qkv_bias) count.tensor += q + 2 * k;
    if (s.qk_norm) count.replicated += 2 * norm * s.head_dim;
  }
  if (s.linear_bias) count.replicated += h;  // of the attention's output
  count.replicated += 2 * norm * h;
  const Count matrices = s.gated ? 3 : 2, fc1 = s.gated ? 2 : 1;
  if (moe) {
    count.replicated += h * s.experts;
    count.expert += s.experts * matrices * h * s.expert_ffn;
    if (s.linear_bias) count.expert += s.experts * (fc1 * s.expert_ffn + h);
    count.tensor += matrices * h * s.shared_expert_ffn;
  } else {
    count.tensor += matrices * h * s.ffn;
    if (s.linear_bias) count.tensor += fc1 * s.ffn, count.replicated += h;
  }
  return count;
}

// Blocks: qkv and output with bias, two LayerNorms, MLP with bias; mergers: norm and two linear layers over merge x merge patches;
// patch embedding over 3 colours, position table. Source: huggingface/transformers: models/qwen3_vl/modeling_qwen3_vl.py.
Count vision_parameters(const VisionShape& v, Count out) {
  const Count matrices = v.gated ? 3 : 2;
  const Count block = 4 * v.hidden * v.hidden + 4 * v.hidden + matrices * v.hidden * v.ffn +
                      (matrices - 1) * v.ffn + v.hidden + 4 * v.hidden;
  const Count wide = v.hidden * v.merge * v.merge;
  const Count merger = wide * wide + wide + wide * out + out + 2 * v.hidden;
  const Count patch = 3 * v.temporal_patch * v.patch * v.patch * v.hidden + v.hidden;
  return v.layers * block + v.mergers * merger + patch + v.positions * v.hidden;
}

Count model_parameters(const ModelShape& s) {
  const Count vocab = s.vocab > 0 ? s.vocab : s.padded_vocab;
  const Count moe = s.moe_layers();
  Count sum = moe * layer_parameters(s, true).total() +
              (s.layers - moe) * layer_parameters(s, false).total();
  sum += vocab * s.hidden * (s.tied ? 1 : 2) + s.hidden * (s.norm_bias() ? 2 : 1);
  sum += s.learned_positions * s.hidden;
  if (s.vision) sum += vision_parameters(*s.vision, s.hidden);
  return sum;
}

}  // namespace triage::signatures::memory
