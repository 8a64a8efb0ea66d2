#include "signatures/plan/guidance.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "parsers/config/command_line.hpp"
#include "parsers/config/config_file.hpp"
#include "signatures/plan/change.hpp"
#include "signatures/plan/facts.hpp"
#include "signatures/plan/forecast.hpp"
#include "signatures/plan/rank.hpp"

using namespace triage::signatures;
using triage::parsers::Bytes;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

const std::vector<CatalogueFix>& catalogue() {
  static const std::vector<CatalogueFix> fixes = read_catalogue(embedded_fixes()).fixes;
  return fixes;
}

// A mixture-of-experts decoder on 16 ranks, with a tower or without one.
RunConfig experts(bool tower) {
  const std::string line =
      "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --bf16 --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope "
      "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 "
      "--num-attention-heads 32 --group-query-attention --num-query-groups 4 --kv-channels 128 --qk-layernorm --seq-length 4096 --max-position-embeddings 4096 "
      "--num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 --moe-grouped-gemm --moe-token-dispatcher-type alltoall --expert-model-parallel-size 8 "
      "--expert-tensor-parallel-size 1 --use-distributed-optimizer --micro-batch-size 2 --global-batch-size 64 --vocab-size 151936";
  RunConfig config = triage::parsers::read_megatron_arguments(triage::parsers::command_words(line));
  if (tower)
    for (const auto& [key, value] : {std::pair{Key::vision_layers, 27}, {Key::vision_hidden, 1152}, {Key::vision_ffn, 4304}, {Key::vision_heads, 16},
                                     {Key::vision_patch, 16}, {Key::vision_merge, 2}, {Key::images, 2}, {Key::image_grid_height, 64}, {Key::image_grid_width, 64}})
      config.set(key, std::int64_t{value}, "test");
  return config;
}

Plan plan_of(const RunConfig& config, std::optional<long> step = {}) {
  Diagnosis d;
  d.kind = "gpu.oom.capacity";
  d.phase = Phase::forward;
  d.frameworks = {"megatron-lm"};
  d.config = config;
  d.root.step = step;
  d.ledger.emplace();
  d.ledger->capacity = triage::parsers::gib(79.11);
  return plan_fixes(d, catalogue(), {30, 8});
}

std::size_t place(const Plan& plan, std::string_view id) {
  for (std::size_t i = 0; i < plan.fixes.size(); ++i)
    if (plan.fixes[i].id == id) return i;
  return plan.fixes.size();
}

bool cites(const Fix& fix) {
  return std::any_of(fix.sources.begin(), fix.sources.end(), [](const std::string& s) { return s.find("moe-vlm") != std::string::npos; });
}

}  // namespace

TEST_CASE("every line of the guidance is read and names a fix of the catalogue") {
  CHECK(all_guidance().size() == 16);
  for (const Guidance& guidance : all_guidance()) {
    CAPTURE(guidance.fix);
    CHECK(std::any_of(catalogue().begin(), catalogue().end(), [&](const CatalogueFix& fix) { return fix.id == guidance.fix; }));
    CHECK_FALSE(guidance.say.empty());
    CHECK_FALSE(guidance.source.empty());
  }
}

TEST_CASE("for a vision-language model with experts FSDP stands before 3D layouts while it is brought up, and the answer says from where") {
  const Plan text = plan_of(experts(false)), pictures = plan_of(experts(true)), stable = plan_of(experts(true), 5000);
  REQUIRE(place(pictures, "sharding.megatron_fsdp") < pictures.fixes.size());
  const std::size_t fsdp = place(pictures, "sharding.megatron_fsdp");
  CHECK(fsdp < place(pictures, "parallelism.tp_up"));
  CHECK(fsdp < place(pictures, "pipeline.pp_up"));
  CHECK(cites(pictures.fixes[fsdp]));
  CHECK(pictures.fixes[fsdp].why.find("bring-up") != std::string::npos);
  // Recompute before the micro batch, which a text model tries first.
  CHECK(place(pictures, "recompute.moe_act") < place(pictures, "micro_batch.halve"));
  CHECK(place(pictures, "recompute.moe") < place(pictures, "micro_batch.halve"));
  CHECK(place(text, "sharding.megatron_fsdp") > fsdp);
  for (const Fix& fix : text.fixes)
    if (fix.id != "parallelism.etp") CHECK_FALSE(cites(fix));
  // A run of thousands of steps is no bring-up any more.
  CHECK(place(stable, "sharding.megatron_fsdp") > fsdp);
}

TEST_CASE("HybridEP is a default where NVLink spans the group, and comes after alltoall elsewhere") {
  const auto weight = [](const char* card) {
    RunConfig config = experts(true);
    config.set(Key::gpu, std::string(card), "test");
    Diagnosis d;
    d.config = config;
    const Facts facts = facts_of(d);
    int sum = 0;
    for (const Guidance* guidance : guidance_of("moe.hybridep", Scope{config, facts})) sum += guidance->add;
    return sum;
  };
  CHECK(weight("NVIDIA GB200") > 0);
  CHECK(weight("gb300") > 0);
  CHECK(weight("NVIDIA H100 80GB HBM3") < 0);
  CHECK(weight("some other card") == 0);
}

TEST_CASE("mock data are told as such where images matter") {
  const auto told = [](RunConfig config) {
    Diagnosis d;
    d.kind = "gpu.oom.capacity";
    d.config = config;
    const auto forecast = forecast_of(d, config);
    REQUIRE(forecast.ok());
    const auto& assumptions = forecast->estimate().assumptions;
    return std::any_of(assumptions.begin(), assumptions.end(), [](const memory::Assumption& a) { return a.text.find("mock data") != std::string::npos; });
  };
  RunConfig mock = experts(true), text = experts(false);
  mock.raw()["mock_data"] = {"True", "test", {}};
  text.raw()["mock_data"] = {"True", "test", {}};
  CHECK(told(mock));
  CHECK_FALSE(told(experts(true)));
  CHECK_FALSE(told(text));
}

TEST_CASE("two changes that set the same setting: the one that adds nothing is left out") {
  const Plan plan = [] {
    Diagnosis d;
    d.kind = "gpu.oom.capacity";
    d.phase = Phase::loss;
    d.frameworks = {"megatron-lm"};
    d.config = experts(false);
    d.ledger.emplace();
    d.ledger->capacity = triage::parsers::gib(79.11);
    return plan_fixes(d, catalogue(), {40, 8});
  }();
  CHECK(place(plan, "parallelism.tp_up") < plan.fixes.size());
  CHECK(place(plan, "loss.vocab_parallel") == plan.fixes.size());
}
