// Parameters that the PyTorch model lays out, against the counts published with the models (safetensors index, model cards).
#include "signatures/memory/known_models.hpp"

#include <doctest/doctest.h>

#include "parsers/config/config_file.hpp"
#include "signatures/memory/frameworks.hpp"

namespace memory = triage::signatures::memory;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

double parameters(RunConfig config) {
  config.set(Key::seq_length, std::int64_t{512}, "test");
  config.set(Key::micro_batch, std::int64_t{1}, "test");
  if (!config.has(Key::dtype)) config.set(Key::dtype, std::string("bf16"), "test");
  const auto estimate = memory::estimate_torch(config);
  REQUIRE_MESSAGE(estimate.ok(), estimate.error().message());
  return static_cast<double>(estimate->stages[0].dense_parameters + estimate->stages[0].expert_parameters);
}

}  // namespace

TEST_CASE("models that a log only names have their published number of parameters") {
  struct Row {
    const char* name;
    double parameters;
  };
  const Row rows[] = {
      {"meta-llama/Meta-Llama-3-8B", 8030261248.0},  {"llama3 8B", 8030261248.0},
      {"meta-llama/Llama-3.1-8B-Instruct", 8030261248.0}, {"meta-llama/Llama-3.2-1B", 1235814400.0},
      {"meta-llama/Llama-3.1-70B", 70553706496.0},   {"meta-llama/Llama-2-7b-hf", 6738415616.0},
      {"mistralai/Mistral-7B-v0.1", 7241732096.0},   {"mistralai/Mixtral-8x7B-v0.1", 46702792704.0},
      {"Qwen/Qwen2.5-7B", 7615616512.0},             {"Qwen/Qwen2.5-0.5B", 494032768.0},
      {"Qwen/Qwen3-8B", 8190735360.0},               {"Qwen/Qwen3-30B-A3B", 30532122624.0},
      {"openai/gpt-oss-20b", 20914757184.0},         {"openai/gpt-oss-120b", 116829156672.0},
      {"deepseek-ai/DeepSeek-V3", 671026404352.0},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    RunConfig config;
    config.set(Key::framework, std::string("huggingface"), "test");
    config.set(Key::model_type, std::string(row.name), "test");
    CHECK(parameters(config) == doctest::Approx(row.parameters).epsilon(0.0001));
  }
}

TEST_CASE("a config.json gives the published number of parameters") {
  struct Row {
    const char* name;
    const char* text;
    double parameters, epsilon;
  };
  const Row rows[] = {
      {"Qwen3-VL-4B",
       R"({"model_type": "qwen3_vl", "tie_word_embeddings": true, "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 2560,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728,
        "vocab_size": 151936, "rms_norm_eps": 1e-6, "dtype": "bfloat16"}, "vision_config": {"depth": 24, "hidden_size": 1024,
        "intermediate_size": 4096, "num_heads": 16, "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
        "num_position_embeddings": 2304, "deepstack_visual_indexes": [5, 11, 17], "out_hidden_size": 2560}})",
       4437815808.0, 0.001},
      {"Qwen2.5-VL-7B",
       R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": false, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
        "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14,
        "spatial_patch_size": 14, "temporal_patch_size": 2, "spatial_merge_size": 2, "out_hidden_size": 3584}})",
       8292166656.0, 0.001},
      {"LLaVA 1.5 7B",
       R"({"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32064, "rms_norm_eps": 1e-5, "torch_dtype": "float16"},
        "tie_word_embeddings": false, "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336,
        "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768}})",
       7063427072.0, 0.001},
      {"GPT-2",
       R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
        "layer_norm_epsilon": 1e-5, "n_inner": null})",
       124439808.0, 0.001},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto config = triage::parsers::read_config_file(row.text, "config.json");
    REQUIRE_MESSAGE(config.ok(), config.error().message());
    CHECK(parameters(*config) == doctest::Approx(row.parameters).epsilon(row.epsilon));
  }
}

TEST_CASE("absurd configurations give a sentence, not a figure") {
  struct Row {
    const char* name;
    const char* text;
  };
  const Row rows[] = {
      {"layers as text", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": "many", "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})"},
      {"layers as a list", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": [1, 2], "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})"},
      {"hidden as an object", R"({"model_type": "llama", "hidden_size": {"a": 1}, "num_hidden_layers": 2, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})"},
      {"a fraction of a layer", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1.5, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})"},
      {"negative vocabulary", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": -1})"},
      {"no attention", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "intermediate_size": 11008, "vocab_size": 32000})"},
      {"a state-space model", R"({"model_type": "mamba", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})"},
      {"an encoder and a decoder", R"({"model_type": "t5", "d_model": 512, "num_layers": 6, "num_heads": 8, "d_ff": 2048, "vocab_size": 32128})"},
      {"more experts a token than experts", R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144, "vocab_size": 32000, "num_experts": 4, "num_experts_per_tok": 8, "moe_intermediate_size": 768})"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    auto config = triage::parsers::read_config_file(row.text, "config.json");
    REQUIRE(config.ok());
    config->set(Key::seq_length, std::int64_t{512}, "test");
    config->set(Key::micro_batch, std::int64_t{1}, "test");
    const auto estimate = memory::estimate_torch(*config);
    REQUIRE_FALSE(estimate.ok());
    CHECK(estimate.error().message().size() > 20);
  }
}
