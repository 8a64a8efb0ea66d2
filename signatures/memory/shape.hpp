// The model's shape as the memory model needs it, from a RunConfig. Nothing here depends on the parallel layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/memory/term.hpp"

namespace triage::signatures::memory {

using Count = std::int64_t;  // parameters, tokens, elements, layers

// Multi-latent attention (DeepSeek V2 and V3). Widths of one head but for the ranks.
struct MlaShape {
  Count q_rank = 0;   // 0: queries are not compressed
  Count kv_rank = 0;
  Count nope_dim = 0, rope_dim = 0, v_dim = 0;
};

// Vision tower of a vision-language model (ViT).
struct VisionShape {
  Count layers = 0, hidden = 0, ffn = 0, heads = 1;
  Count patch = 0, temporal_patch = 1, merge = 1;
  Count mergers = 1;    // projector blocks: merger and deepstack levels
  Count positions = 0;  // rows of the learned position table, 0: none
  bool gated = false;
  bool frozen = false, projector_frozen = false;
  Count patches = 0;    // of one micro batch; 0: not known
  Count images = 0;     // of one micro batch; attention does not cross them
  bool rotary = true;   // rotated queries and keys; false: a position table only (CLIP, InternViT)
};

struct ModelShape {
  std::string model_type;  // of config.json, or the model's name; may be empty
  Count layers = 0, hidden = 0, ffn = 0;
  Count heads = 0, kv_heads = 0, head_dim = 0;
  Count vocab = 0;         // without padding; 0: only the padded one is known
  Count padded_vocab = 0;  // as allocated by the program; 0: not known
  Count vocab_divisor = 128;
  bool tied = false, gated = true, linear_bias = false, qkv_bias = false;
  bool layernorm = false;  // LayerNorm (weight, and bias but for Cohere) instead of RMSNorm
  bool norm_bias() const { return layernorm && model_type.substr(0, 6) != "cohere"; }
  bool qk_norm = false;
  Count learned_positions = 0;  // rows of a learned position table
  Count sliding_window = 0;     // tokens; 0: none
  Count mtp_layers = 0;
  bool frozen = false;          // language part has no gradients
  // Mixture of experts
  Count experts = 0, experts_per_token = 0, expert_ffn = 0, shared_expert_ffn = 0;
  std::vector<bool> moe_layer;  // [layers]; empty: all dense
  std::optional<MlaShape> mla;
  std::optional<VisionShape> vision;

  bool has_experts() const { return experts > 0; }
  bool is_moe(Count layer) const {
    return experts > 0 && layer >= 0 && layer < static_cast<Count>(moe_layer.size()) &&
           moe_layer[static_cast<std::size_t>(layer)];
  }
  Count moe_layers() const;
  Count query_width() const { return heads * head_dim; }     // q
  Count key_width() const { return kv_heads * head_dim; }    // keys, and values
};

// Parameters by how they are split: tensor (by tensor parallel), replicated, expert (by expert and expert tensor parallel).
struct ParameterCount {
  Count tensor = 0, replicated = 0, expert = 0;
  Count total() const { return tensor + replicated + expert; }
};
// One decoder layer: attention, norms, router, MLP or experts. Sources: docs/memory-model.md, "Parameters".
ParameterCount layer_parameters(const ModelShape& shape, bool moe);
Count vision_parameters(const VisionShape& vision, Count decoder_hidden);
// Whole model, vocabulary as the model states it (not padded).
Count model_parameters(const ModelShape& shape);

// Shape out of the settings, completed from known_models.hpp where model_type tells the rest; what was taken for granted goes to
// `assumptions`. Errors: not_found naming all keys that are missing; conflict on values that cannot be (0 layers, hidden not
// divisible by heads where head_dim is not given, more than kMaxSize).
parsers::Result<ModelShape> model_shape(const parsers::RunConfig& config, Assumptions& assumptions);

}  // namespace triage::signatures::memory
