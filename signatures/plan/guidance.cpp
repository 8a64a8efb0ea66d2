#include "signatures/plan/guidance.hpp"

#include <cassert>
#include <string_view>
#include <utility>

namespace triage::signatures {

namespace {

struct Row {
  std::string_view fix, when;
  int add;
  std::string_view say;
};

// NVIDIA-NeMo/Megatron-Bridge@067f987: skills/nemo-mbridge-perf-moe-vlm-training.
constexpr std::string_view kSource = "NVIDIA-NeMo/Megatron-Bridge@067f987: skills/nemo-mbridge-perf-moe-vlm-training";
#define TRIAGE_MOE_VLM "default(vision_layers, 0) > 0 and default(experts, 0) > 0"
// A run that has made a thousand steps is past its bring-up.
#define TRIAGE_BRING_UP TRIAGE_MOE_VLM " and default(step, 0) < 1000"
constexpr Row kRows[] = {
    {"sharding.megatron_fsdp", TRIAGE_BRING_UP, 40,
     "FSDP comes first in the bring-up of a mixture-of-experts vision-language model: few knobs, no stage boundary through the tower; 3D layouts follow "
     "when the run is stable and their speed is worth it."},
    {"sharding.megatron_fsdp", TRIAGE_MOE_VLM " and default(step, 0) >= 1000", 0,
     "This run is past its bring-up: a 3D layout is as good a way when steady speed is the aim."},
    {"sharding.torch_fsdp2", TRIAGE_BRING_UP, 20, "FSDP comes first in the bring-up of a mixture-of-experts vision-language model."},
    {"parallelism.tp_up", TRIAGE_BRING_UP, -20, "For a mixture-of-experts vision-language model 3D layouts come after a stable run under FSDP."},
    {"pipeline.pp_up", TRIAGE_BRING_UP, -20, "For a mixture-of-experts vision-language model 3D layouts come after a stable run under FSDP."},
    {"vision.freeze", TRIAGE_MOE_VLM, 10,
     "Where the decoder is what is tuned, freeze the tower first: it frees its activations and its states, and was about 5 % faster."},
    {"micro_batch.halve", TRIAGE_MOE_VLM, -25,
     "Vision-language models gain more from a large micro batch than text models (4 nearly doubled the speed of 1): recompute comes before it, and after a "
     "fit sweep it upwards until the tower is the bottleneck."},
    {"recompute.moe_act", TRIAGE_MOE_VLM, 6, "Selective recompute comes before full recompute once the run fits."},
    {"recompute.layernorm", TRIAGE_MOE_VLM, 6, "Selective recompute comes before full recompute once the run fits."},
    {"recompute.moe", TRIAGE_MOE_VLM, 6, "Selective recompute comes before full recompute once the run fits."},
    {"recompute.full_uniform", TRIAGE_MOE_VLM, 0,
     "Full recompute is for the bring-up: once the run fits, go back to selective modules (moe_act, layernorm) one by one."},
    {"cudagraph.narrow", TRIAGE_MOE_VLM, 4,
     "The scope attn moe_router moe_preprocess is the safer one for experts; start without attn, widen it when the path with real images is stable, never "
     "with full recompute or packed sequences."},
    {"cudagraph.not_full", TRIAGE_MOE_VLM, 4,
     "The scope attn moe_router moe_preprocess is the safer one for experts; choose it together with the recompute."},
    {"moe.hybridep", "card in [gb200, gb300]", 30, "HybridEP is the strong default on GB200-class systems."},
    {"moe.hybridep", TRIAGE_MOE_VLM " and card in [h100, h200, b200, a100]", -10,
     "On H100 and B200 bring the run up with alltoall, then compare HybridEP and DeepEP."},
    {"parallelism.etp", "default(experts, 0) > 0 and default(expert_parallel, 1) < experts", -15,
     "Expert tensor parallelism only when expert parallelism alone is not enough: it multiplies the dispatched rows."},
};
#undef TRIAGE_BRING_UP
#undef TRIAGE_MOE_VLM

}  // namespace

const std::vector<Guidance>& all_guidance() {
  static const std::vector<Guidance> all = [] {
    std::vector<Guidance> made;
    for (const Row& row : kRows) {
      parsers::Result<Expression> when = Expression::condition(row.when, {});
      assert(when.ok());   // the table is ours; a test reads all of it
      if (when.ok()) made.push_back({std::string(row.fix), std::move(*when), row.add, std::string(row.say), std::string(kSource)});
    }
    return made;
  }();
  return all;
}

std::vector<const Guidance*> guidance_of(const std::string& fix, const Scope& scope) {
  std::vector<const Guidance*> out;
  for (const Guidance& guidance : all_guidance())
    if (guidance.fix == fix && guidance.when.truth(scope) == Truth::yes) out.push_back(&guidance);
  return out;
}

}  // namespace triage::signatures
