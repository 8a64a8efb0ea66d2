// How many fixes of the catalogue have a saving that the memory model computes. Printed, with the best saving over a table of runs.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "parsers/config/command_line.hpp"
#include "parsers/config/config_file.hpp"
#include "signatures/memory/estimate.hpp"
#include "signatures/plan/catalogue.hpp"
#include "signatures/plan/change.hpp"
#include "signatures/plan/facts.hpp"

using namespace triage::signatures;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

constexpr const char* kMegatron =
    "--bf16 --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --untie-embeddings-and-output-weights --attention-dropout 0 "
    "--hidden-dropout 0 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 4096 "
    "--max-position-embeddings 4096 --vocab-size 128256 --micro-batch-size 2 --global-batch-size 512 ";
constexpr const char* kExperts = "--num-layers 32 --ffn-hidden-size 14336 --num-experts 32 --moe-router-topk 4 --moe-ffn-hidden-size 2048 --moe-grouped-gemm ";

RunConfig megatron(const std::string& more, std::int64_t world) {
  RunConfig config = triage::parsers::read_megatron_arguments(triage::parsers::command_words(kMegatron + more));
  change_setting(config, Key::world, world, "test");
  return config;
}

RunConfig torch(const std::string& model_type, std::initializer_list<std::pair<const char*, const char*>> more) {
  RunConfig config;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"framework", "huggingface"}, {"layers", "32"}, {"hidden", "4096"}, {"ffn", "14336"}, {"heads", "32"}, {"kv_heads", "8"}, {"vocab", "128256"},
           {"dtype", "bf16"}, {"micro_batch", "4"}, {"seq_length", "8192"}, {"optimizer", "adamw"}, {"optimizer_fused", "false"}, {"gradient_accumulation", "2"}})
    REQUIRE(config.set_text(*triage::parsers::key_by_name(key), value, "test").ok());
  config.set(Key::model_type, model_type, "test");
  for (const auto& [key, value] : more) REQUIRE(config.set_text(*triage::parsers::key_by_name(key), value, "test").ok());
  return config;
}

std::vector<RunConfig> runs() {
  const std::string experts = kExperts;
  return {
      megatron("--num-layers 32 --ffn-hidden-size 14336", 16),
      megatron("--num-layers 32 --ffn-hidden-size 14336 --use-distributed-optimizer --transformer-impl local --cross-entropy-loss-fusion", 64),
      megatron("--num-layers 32 --ffn-hidden-size 14336 --use-distributed-optimizer --tensor-model-parallel-size 4", 64),
      megatron("--num-layers 32 --ffn-hidden-size 14336 --tensor-model-parallel-size 2 --recompute-granularity full --recompute-method uniform "
               "--recompute-num-layers 1", 64),
      megatron("--num-layers 32 --ffn-hidden-size 14336 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
               "--microbatch-group-size-per-virtual-pipeline-stage 8 --use-distributed-optimizer", 64),
      megatron("--num-layers 32 --ffn-hidden-size 14336 --bf16 --fp8-format hybrid --use-distributed-optimizer", 64),
      megatron(experts + "--use-distributed-optimizer --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall --moe-shared-expert-intermediate-size 4096", 64),
      megatron(experts + "--use-distributed-optimizer --expert-model-parallel-size 4 --moe-token-dispatcher-type allgather --tensor-model-parallel-size 2 "
                         "--sequence-parallel", 64),
      megatron(experts + "--use-distributed-optimizer --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall --pipeline-model-parallel-size 4 "
                         "--num-layers-per-virtual-pipeline-stage 4 --overlap-moe-expert-parallel-comm", 64),
      megatron(experts + "--use-distributed-optimizer --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall --multi-latent-attention "
                         "--q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128", 64),
      torch("llama", {}),
      torch("llama", {{"dtype", "fp32"}, {"micro_batch", "1"}, {"seq_length", "4096"}}),
      torch("llama", {{"attention", "eager"}}),
      torch("llama", {{"lora_rank", "16"}}),
      torch("llama", {{"world", "8"}, {"zero_stage", "0"}}),
      torch("llama", {{"world", "8"}, {"zero_stage", "1"}}),
      torch("llama", {{"world", "8"}, {"zero_stage", "2"}}),
      torch("llama", {{"world", "8"}, {"zero_stage", "3"}}),
      torch("llama", {{"world", "16"}, {"fsdp", "fsdp2"}, {"reshard_after_forward", "false"}}),
      torch("llama", {{"world", "16"}, {"fsdp", "fsdp2"}, {"data_parallel_shard", "8"}}),
      torch("llama", {{"world", "8"}}),
      torch("qwen3_vl", {{"vision_layers", "27"}, {"vision_hidden", "1152"}, {"vision_ffn", "4304"}, {"vision_heads", "16"}, {"vision_patch", "16"}, {"vision_merge", "2"},
                         {"vision_temporal_patch", "2"}, {"images", "8"}, {"image_grid_height", "64"}, {"image_grid_width", "64"}}),
  };
}

}  // namespace

TEST_CASE("at least sixty fixes have a saving that the memory model computes") {
  const std::vector<CatalogueFix> catalogue = read_catalogue(embedded_fixes()).fixes;
  std::map<std::string, std::int64_t> best;
  std::size_t with_change = 0;
  for (const CatalogueFix& fix : catalogue) with_change += fix.change.empty() ? 0 : 1;
  for (const RunConfig& config : runs()) {
    const auto before = memory::estimate(config);
    REQUIRE_MESSAGE(before.ok(), before.error().message());
    Diagnosis diagnosis;
    diagnosis.config = config;
    const Facts facts = facts_of(diagnosis);
    for (const CatalogueFix& fix : catalogue) {
      const auto changed = changed_config(fix, Scope{config, facts});
      if (!changed) continue;
      const auto after = memory::estimate(*changed);
      if (!after.ok()) continue;
      const std::int64_t saved = before->highest().peak_allocated.mid.count() - after->highest().peak_allocated.mid.count();
      if (saved > 0) best[fix.id] = std::max(best[fix.id], saved);
    }
  }
  std::printf("fixes with a computed saving: %zu of %zu that change a setting, best over %zu runs in GiB\n", best.size(), with_change, runs().size());
  for (const auto& [id, saved] : best) std::printf("  %-34s %9.2f\n", id.c_str(), static_cast<double>(saved) / 1073741824.0);
  CHECK(best.size() >= 60);
}
