#include "signatures/verdict/phase.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace triage::signatures;
using triage::parsers::Frame;

namespace {

struct Row {
  std::string name;
  std::vector<Frame> frames;   // outermost first
  Phase want;
};

const Frame kCall{"/lib/torch/nn/modules/module.py", 1790, "_call_impl", "return forward_call(*args, **kwargs)"};
const Frame kLinear{"/lib/torch/nn/modules/linear.py", 134, "forward", "return F.linear(input, self.weight, self.bias)"};
const Frame kLayer{"/lib/transformers/models/llama/modeling_llama.py", 322, "forward", "hidden_states = self.mlp(hidden_states)"};
const Frame kTrain{"/workspace/train.py", 48, "train", "loss = m(input_ids=x, labels=x, use_cache=False).loss"};
const Frame kEngine{"/lib/torch/autograd/graph.py", 869, "_engine_run_backward", "return Variable._execution_engine.run_backward("};

// Frames of recorded and labelled logs.
const std::vector<Row> kRows = {
    {"forward below a library layer", {kTrain, kCall, kLayer, kCall, kLinear}, Phase::forward},
    {"logits in fp32", {kTrain, kLayer, {"/lib/transformers/loss/loss_utils.py", 59, "ForCausalLMLoss", "logits = logits.float()"}}, Phase::loss},
    {"the output matrix", {kTrain, {"/lib/transformers/models/llama/modeling_llama.py", 480, "forward", "logits = self.lm_head(hidden_states)"}, kCall, kLinear}, Phase::loss},
    {"Trainer.compute_loss above a layer", {{"/lib/transformers/trainer.py", 3700, "compute_loss", "outputs = model(**inputs)"}, kLayer, kLinear}, Phase::forward},
    {"backward", {kTrain, {"/lib/torch/_tensor.py", 631, "backward", "torch.autograd.backward("}, kEngine}, Phase::backward},
    {"recomputation below the engine", {kTrain, kEngine, {"/lib/torch/utils/checkpoint.py", 300, "backward", ""}, kLayer, kLinear}, Phase::backward},
    {"a closure below the optimizer's step", {{"/lib/torch/optim/adam.py", 230, "step", "loss = closure()"}, {"/w/module.py", 3, "training_step", ""}, kLayer}, Phase::forward},
    {"first step of Adam", {{"/lib/torch/optim/adam.py", 238, "step", "has_complex = self._init_group("}, {"/lib/torch/optim/adam.py", 182, "_init_group", "state[\"exp_avg_sq\"] = torch.zeros_like("}}, Phase::optimizer_init},
    {"a later step", {{"/lib/torch/optim/adamw.py", 220, "step", ""}, {"/lib/torch/optim/adamw.py", 606, "_multi_tensor_adamw", ""}}, Phase::optimizer_step},
    {"from_pretrained", {{"/lib/transformers/modeling_utils.py", 4415, "_load_pretrained_model", ""}, {"/lib/accelerate/utils/modeling.py", 400, "set_module_tensor_to_device", ""}}, Phase::load},
    {"the model's constructor", {{"/lib/transformers/models/llama/modeling_llama.py", 429, "__init__", "self.model = LlamaModel(config)"}, {"/lib/torch/nn/modules/linear.py", 109, "__init__", ""}}, Phase::init},
    {"graph capture", {{"/lib/sglang/srt/model_executor/model_runner.py", 934, "init_cuda_graphs", ""}, kLayer}, Phase::capture},
    {"nothing known", {{"/workspace/cases.py", 93, "fragmentation", "big = torch.empty(30 * GIB)"}}, Phase::unknown},
};

}  // namespace

TEST_CASE("frames tell the phase of the step") {
  for (const auto& row : kRows) {
    SUBCASE(row.name.c_str()) { CHECK(std::string(phase_name(phase_of_frames(row.frames))) == std::string(phase_name(row.want))); }
  }
}

TEST_CASE("the clone warning of an FSDP save is a checkpoint, whole or cut") {
  CHECK(phase_of_text("UserWarning: Failed to clone() tensor with name lm_head.weight.") == Phase::checkpoint);
  CHECK(phase_of_text("proj.weight on rank 1. This may mean that this state_dict entry could point to invalid memory regions") == Phase::checkpoint);
}
