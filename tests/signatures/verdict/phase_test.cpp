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
    {"the data set is read", {{"/workspace/train.py", 88, "<module>", "main()"}, {"/workspace/tools.py", 171, "get_train_test_data", "x = np.vstack(x)"}, {"/lib/numpy/core/shape_base.py", 283, "vstack", ""}}, Phase::load},
    {"a batch is no data set", {{"/workspace/train.py", 88, "get_batch_data", ""}}, Phase::unknown},
    {"a distributed checkpoint is read", {{"/lib/megatron/core/dist_checkpointing/serialization.py", 125, "load", ""}, {"/lib/megatron/core/dist_checkpointing/dict_utils.py", 227, "merge", ""}}, Phase::load},
    {"weights go to the rollout engine", {{"/lib/openrlhf/trainer/ray/ppo_actor.py", 400, "broadcast_to_vllm", ""}}, Phase::comm},
    {"nothing known", {{"/workspace/cases.py", 93, "fragmentation", "big = torch.empty(30 * GIB)"}}, Phase::unknown},
};

}  // namespace

TEST_CASE("frames tell the phase of the step") {
  for (const auto& row : kRows) {
    SUBCASE(row.name.c_str()) { CHECK(std::string(phase_name(phase_of_frames(row.frames))) == std::string(phase_name(row.want))); }
  }
}

TEST_CASE("a stack that is quoted in one line is read") {
  const char* const list =
      "['Traceback (most recent call last):\\n', '  File \"/w/train_gpt.py\", line 157, in forward_step\\n    output_tensor = model(\\n', "
      "'  File \"/w/gpt_model.py\", line 606, in _postprocess\\n    logits, _ = self.output_layer(\\n', 'torch.OutOfMemoryError: CUDA out of memory.\\n']";
  const auto frames = frames_in_text(list);
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].file == "/w/train_gpt.py");
  CHECK(frames[1].line == 606);
  CHECK(frames[1].function == "_postprocess");
  CHECK(frames[1].source == "logits, _ = self.output_layer(");
  const auto json = frames_in_text("{\"py_callstack\": \"Traceback (most recent call last):\\n  File \\\"/w/a.py\\\", line 3, in step\\n    x()\\n\"}");
  REQUIRE(json.size() == 1);
  CHECK(json[0].file == "/w/a.py");
  CHECK(json[0].function == "step");
  CHECK(frames_in_text("  File \"/w/a.py\", line 3, in step").empty());   // a line of its own: the assembler's
  CHECK(frames_in_text("File \"").empty());
}

TEST_CASE("some kinds tell the phase") {
  CHECK(phase_of_kind("nccl.timeout") == Phase::comm);
  CHECK(phase_of_kind("jax.oom.compile") == Phase::compile);
  CHECK(phase_of_kind("gpu.oom.capacity") == Phase::unknown);
  CHECK(phase_of_kind("") == Phase::unknown);
}

TEST_CASE("the clone warning of an FSDP save is a checkpoint, whole or cut") {
  CHECK(phase_of_text("UserWarning: Failed to clone() tensor with name lm_head.weight.") == Phase::checkpoint);
  CHECK(phase_of_text("proj.weight on rank 1. This may mean that this state_dict entry could point to invalid memory regions") == Phase::checkpoint);
}
