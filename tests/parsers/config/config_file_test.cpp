#include "parsers/config/config_file.hpp"

#include <doctest/doctest.h>

#include <random>

#include "parsers/config/python_literal.hpp"
#include "parsers/config/yaml_lines.hpp"
#include "read_log.hpp"

using namespace triage::parsers;
using namespace triage::parsers::test;

TEST_CASE("configuration files are told by their content") {
  struct Row {
    const char* name;
    const char* text;
    const char* want;
  };
  const Row rows[] = {
      {"config.json",
       "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", "
       "\"hidden_size\": 2048, \"num_hidden_layers\": 48, \"num_attention_heads\": 32,\n"
       "\"num_key_value_heads\": 4, \"head_dim\": 128, \"num_experts\": 128, "
       "\"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768, \"intermediate_size\": 6144,\n"
       "\"vocab_size\": 151936, \"tie_word_embeddings\": false, \"rms_norm_eps\": 1e-06, "
       "\"sliding_window\": null, \"dtype\": \"bfloat16\"}\n",
       "framework=huggingface layers=48 hidden=2048 heads=32 kv_heads=4 head_dim=128 experts=128 "
       "experts_per_token=8 expert_ffn=768 ffn=6144 vocab=151936 tied_embeddings=false "
       "qk_norm=true gated_mlp=true dtype=bf16 sliding_window=(unset)"},
      {"vision-language config.json",
       "{\"model_type\": \"qwen3_vl\", \"tie_word_embeddings\": true, \"text_config\": "
       "{\"model_type\": \"qwen3_vl_text\", \"hidden_size\": 2560, \"num_hidden_layers\": 36,\n"
       "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": 128, "
       "\"intermediate_size\": 9728, \"vocab_size\": 151936},\n"
       "\"vision_config\": {\"depth\": 24, \"hidden_size\": 1024, \"intermediate_size\": 4096, "
       "\"num_heads\": 16, \"patch_size\": 16, \"temporal_patch_size\": 2, \"spatial_merge_size\": "
       "2,\n"
       "\"num_position_embeddings\": 2304, \"deepstack_visual_indexes\": [5, 11, 17], "
       "\"out_hidden_size\": 2560}}",
       "model_type=qwen3_vl layers=36 hidden=2560 ffn=9728 heads=32 kv_heads=8 vocab=151936 "
       "tied_embeddings=true qk_norm=true vision_layers=24 vision_hidden=1024 vision_ffn=4096 "
       "vision_heads=16 vision_patch=16 vision_temporal_patch=2 vision_merge=2 "
       "vision_positions=2304 vision_mergers=4"},
      {"DeepSpeed",
       "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": 4, "
       "\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2, "
       "\"offload_optimizer\": {\"device\": \"cpu\"},"
       " \"reduce_bucket_size\": 5e8}}",
       "framework=deepspeed zero_stage=2 zero_offload_optimizer=cpu zero_offload_param=none "
       "optimizer_offload=true reduce_bucket=500000000 gradient_accumulation=4 dtype=bf16 "
       "micro_batch=(unset)"},
      {"torchtitan TOML",
       "[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n[training]\nlocal_batch_size = 2  # "
       "comment\nseq_len = 8192\n\n[parallelism]\ntensor_parallel_degree = "
       "2\n\n[activation_checkpoint]\nmode = \"full\"\n",
       "framework=torchtitan model_type=llama3~8B micro_batch=2 seq_length=8192 tensor_parallel=2 "
       "recompute=full"},
      {"Megatron Bridge YAML",
       "# overrides\nmodel:\n  tensor_model_parallel_size: 4\n  num_layers: 8\n  "
       "recompute_granularity: null\ntrain:\n  micro_batch_size: 2\n  global_batch_size: 32\n",
       "framework=megatron-bridge tensor_parallel=4 layers=8 micro_batch=2 global_batch=32 "
       "recompute=none"},
      {"accelerate YAML",
       "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  "
       "fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: false\n  "
       "fsdp_activation_checkpointing: true\n"
       "mixed_precision: bf16\nnum_processes: 8\n",
       "framework=huggingface fsdp=fsdp1 fsdp_strategy=FULL_SHARD fsdp_offload=false "
       "recompute=full autocast=bf16 world=8"},
      {"axolotl YAML",
       "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: "
       "2\ngradient_accumulation_steps: 4\ngradient_checkpointing: true\nadapter: lora\nlora_r: "
       "16\n",
       "micro_batch=2 seq_length=4096 gradient_accumulation=4 recompute=full lora_rank=16"},
      {"script",
       "#!/bin/bash\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 --nnodes 1 "
       "pretrain_gpt.py \\\n    --num-layers 24 \\\n    --hidden-size 2048 --micro-batch-size $MBS "
       "\\\n    --seq-length 4096\n",
       "framework=megatron-lm layers=24 hidden=2048 seq_length=4096 world=8 micro_batch=(unset)"},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      const Result<RunConfig> config = read_config_file(row.text, "file");
      REQUIRE(config.ok());
      CHECK(differences(*config, row.want) == "");
    }
  }
}

TEST_CASE("a broken configuration file is refused with its place") {
  const Result<RunConfig> json = read_config_file(
      "{\n  \"hidden_size\": 4096,\n  \"num_hidden_layers\" 32\n}\n", "config.json");
  REQUIRE_FALSE(json.ok());
  CHECK(json.error().code() == ErrorCode::syntax);
  REQUIRE(json.error().place());
  CHECK(json.error().place()->line == 3);
  CHECK_FALSE(read_config_file("{\"hidden_size\": 4096", "config.json").ok());
  CHECK_FALSE(read_config_file("", "x").ok());
  const Result<RunConfig> unknown = read_config_file("colour: blue\n", "x.yaml");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().code() == ErrorCode::unsupported);
  CHECK_FALSE(read_model_config("{\"a\": 1}").ok());
  const Result<RunConfig> prose =
      read_config_file("model:\n  num_layers: 2\nthis is prose, not YAML\n", "x.yaml");
  REQUIRE_FALSE(prose.ok());
  CHECK(prose.error().place()->line == 3);
}

TEST_CASE("Python values: texts side by side, enums, nested calls, lists, escapes, cut ends") {
  const auto flat = [](std::string_view text) {
    std::string out;
    for (const FlatSetting& setting : read_literal(text).settings)
      out += setting.name + "=" + setting.value + ";";
    return out;
  };
  CHECK(flat("{'a': 'x'\n      'y', 'b': [1,\n 2], 'c': {}, 'd': {'e': None}}") ==
        "a=xy;b=[1, 2];d.e=None;");
  CHECK(flat("Config(lr=0.1, kind=<Kind.A: 'a'>, fn=functools.partial(<function f at 0x1>, 3), "
             "path=PosixPath('/x'), shape=torch.Size([1, 2]), sub=Sub(x=1))") ==
        "lr=0.1;kind=<Kind.A: 'a'>;fn=<function f at 0x1>;path=/x;shape=[1, 2];sub.x=1;");
  CHECK(flat("{\"a\\\"b\": \"c\\\\d\", \"e\": -1.5e-3}") == "a\"b=c\\d;e=-1.5e-3;");
  CHECK(flat("{'a': 1, 'b': [3, 4") == "a=1;b=[3, 4;");
  CHECK(flat("[{'a': 1}, {'a': 2}]") == "[0].a=1;[1].a=2;");
  CHECK(flat("{'a': 1, garbage here, 'b': 2}") == "a=1;b=2;");
  CHECK(read_literal("{'a': [1, (2, 3)], 'b': {'c': True}}").complete);
  CHECK_FALSE(read_literal("{'a': 1").complete);
  const std::string deep(100'000, '[');
  CHECK(read_literal(deep).fault);
  CHECK(read_literal("{\"a\":" + std::string(100'000, '{')).settings.empty());
}

TEST_CASE(
    "YAML lines: lists at the key's own indentation, lists of maps, flow values, comments, block "
    "texts") {
  YamlLines yaml;
  std::uint64_t number = 0;
  for (const char* line :
       {"a:", "- x", "- 'y'", "b:", "  - c: 1", "    d: 2", "  - c: 3",
        "e: {f: 1, g: [1, 2]}  # no", "h: |", "  any: thing", "i: 5 # five", "'j': null"})
    CHECK(yaml.add(line, ++number));
  std::string out;
  for (const FlatSetting& setting : yaml.take()) out += setting.name + "=" + setting.value + ";";
  CHECK(out == "a=[x, y];b[0].c=1;b[0].d=2;b[1].c=3;e.f=1;e.g=[1, 2];i=5;j=null;");
  CHECK(yaml.empty());
  CHECK_FALSE(yaml.add("no colon here", 1));
}

TEST_CASE("no mutation of real logs breaks a reader, and its memory stays bounded") {
  std::mt19937 random(20261202);
  for (const char* name : {"hf-deepspeed.log", "megatron-2021.log"}) {
    const std::string whole = data_file(name);
    REQUIRE(whole.size() > 1000);
    for (int round = 0; round < 60; ++round) {
      std::string text = whole;
      for (int change = 0; change < 200; ++change) {
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text[at] = static_cast<char>(random() % 256);
            break;
          case 1:
            text.erase(at, random() % 40);
            break;
          case 2:
            text.insert(at, 1, "{}[]()'\"=:\n,"[random() % 12]);
            break;
          default:
            text.insert(at, text.substr(random() % text.size(), random() % 60));
            break;
        }
      }
      const RunConfig config = read_log(text);
      CHECK(config.raw().size() < 5000);
      CHECK(config.conflicts().size() <= 256);
      (void)read_config_file(text, "x");
    }
  }
}

TEST_CASE("a block that never ends is let go") {
  std::string log =
      "(TaskRunner pid=1) {'actor_rollout_ref': {'actor': {'ppo_micro_batch_size_per_gpu': 3,\n";
  for (int i = 0; i < 1000; ++i)
    log += "(TaskRunner pid=1) training goes on, step " + std::to_string(i) + "\n";
  log += "(TaskRunner pid=1)  'trainer': {'nnodes': 7}}\n";
  const RunConfig config = read_log(log);
  CHECK(config.integer(Key::micro_batch) == 3);
  CHECK_FALSE(config.raw().contains("trainer.nnodes"));
}

TEST_CASE(
    "merging: what the program reports beats what was asked for; equal sources that disagree are "
    "told") {
  RunConfig a, b;
  a.set(Key::micro_batch, std::int64_t{4}, "command line");
  b.set(Key::micro_batch, std::int64_t{2}, "trainer lines");
  a.set(Key::layers, std::int64_t{12}, "megatron arguments", Place{"a.log", 3, {}, {}, ""});
  b.set(Key::layers, std::int64_t{24}, "deepspeed configuration", Place{"b.log", 9, {}, {}, ""});
  add_framework(a, "megatron-lm");
  add_framework(b, "megatron-bridge");
  merge(a, b);
  CHECK(a.integer(Key::micro_batch) == 2);
  CHECK(a.integer(Key::layers) == 12);
  REQUIRE(a.conflicts().size() == 1);
  CHECK(a.conflicts()[0].key == Key::layers);
  CHECK(value_text(a.conflicts()[0].other.value) == "24");
  CHECK(a.frameworks() == std::vector<std::string>{"megatron-bridge", "megatron-lm"});
  CHECK(a.text(Key::framework) == "megatron-bridge");
  merge(a, b);
  CHECK(a.conflicts().size() == 1);
}

TEST_CASE("only what follows exactly is derived") {
  RunConfig config;
  add_framework(config, "megatron-lm");
  config.set(Key::world, std::int64_t{16}, "x");
  config.set(Key::tensor_parallel, std::int64_t{2}, "x");
  config.set(Key::pipeline_parallel, std::int64_t{3}, "x");
  config.set(Key::global_batch, std::int64_t{10}, "x");
  config.set(Key::micro_batch, std::int64_t{4}, "x");
  config.set(Key::hidden, std::int64_t{100}, "x");
  config.set(Key::heads, std::int64_t{3}, "x");
  derive(config);
  CHECK_FALSE(config.has(Key::data_parallel));
  CHECK_FALSE(config.has(Key::gradient_accumulation));
  CHECK_FALSE(config.has(Key::head_dim));
  CHECK_FALSE(config.has(Key::ffn));
}
