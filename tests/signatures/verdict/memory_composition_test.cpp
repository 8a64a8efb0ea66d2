#include "signatures/verdict/memory_composition.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace triage::signatures;
using namespace triage::parsers;

namespace {

struct Call { const char* file; const char* function; int line; };

StackId stack(StackTable& table, const std::vector<Call>& frames) {
  std::vector<FrameId> ids;
  for (const Call& frame : frames) {
    StackFrame made;
    made.file = table.text(frame.file);
    made.function = table.text(frame.function);
    made.line = frame.line;
    ids.push_back(table.frame(made));
  }
  return table.stack(ids);
}

constexpr const char* kTorch = "/usr/lib/python3.12/site-packages/torch/";

std::string torch(const char* rest) { return std::string(kTorch) + rest; }

}  // namespace

// Frames as the programs' sources have them, innermost first.
TEST_CASE("a call stack says what the memory is for") {
  StackTable table;
  const std::string adam = torch("optim/adam.py"), module = torch("nn/modules/module.py"), linear = torch("nn/modules/linear.py"), functional = torch("nn/functional.py"),
                    flat = torch("distributed/fsdp/_flat_param.py"), fsdp_param = torch("distributed/fsdp/_fully_shard/_fsdp_param.py"),
                    fsdp_collectives = torch("distributed/fsdp/_fully_shard/_fsdp_collectives.py"), c10d = torch("distributed/distributed_c10d.py"),
                    ddp = torch("nn/parallel/distributed.py"), checkpoint = torch("utils/checkpoint.py"), function = torch("autograd/function.py");
  struct Row { const char* name; std::vector<Call> frames; MemoryCategory want; };
  const std::vector<Row> rows = {
      {"Adam's states", {{adam.c_str(), "_init_group", 178}, {adam.c_str(), "step", 238}, {"train.py", "train", 50}}, MemoryCategory::optimizer},
      {"a temporary of Adam's step", {{adam.c_str(), "_multi_tensor_adam", 700}, {adam.c_str(), "step", 240}, {"train.py", "train", 50}}, MemoryCategory::temporary},
      {"an optimizer of a package", {{"/p/site-packages/lion_pytorch/lion_pytorch.py", "step", 80}, {"train.py", "train", 5}}, MemoryCategory::optimizer},
      {"bitsandbytes", {{"/p/site-packages/bitsandbytes/optim/optimizer.py", "get_state_buffer", 330}, {"/p/site-packages/bitsandbytes/optim/optimizer.py", "step", 300}},
       MemoryCategory::optimizer},
      {"a layer's weight", {{linear.c_str(), "__init__", 109}, {"model.py", "__init__", 3}, {"train.py", "main", 9}}, MemoryCategory::weights},
      {"moved to the device", {{module.c_str(), "convert", 1300}, {module.c_str(), "_apply", 900}, {module.c_str(), "to", 1310}, {"train.py", "main", 9}}, MemoryCategory::weights},
      {"an activation", {{linear.c_str(), "forward", 134}, {module.c_str(), "_call_impl", 1790}, {"model.py", "forward", 30}, {"train.py", "train", 48}}, MemoryCategory::activations},
      {"recomputed", {{linear.c_str(), "forward", 134}, {module.c_str(), "_call_impl", 1790}, {checkpoint.c_str(), "recompute_fn", 1500}, {"train.py", "train", 48}},
       MemoryCategory::activations},
      {"the loss", {{functional.c_str(), "cross_entropy", 3000}, {"train.py", "train", 48}}, MemoryCategory::logits},
      {"Megatron's loss", {{"/m/megatron/core/tensor_parallel/cross_entropy.py", "calculate_logits_max", 25}, {"/m/megatron/core/models/gpt/gpt_model.py", "forward", 600}},
       MemoryCategory::logits},
      {"the head of a Hugging Face model", {{linear.c_str(), "forward", 134}, {module.c_str(), "_call_impl", 1790}, {"/p/site-packages/transformers/models/llama/modeling_llama.py", "forward", 480},
        {module.c_str(), "_call_impl", 1790}, {"train.py", "train", 48}}, MemoryCategory::logits},
      {"a backward of one's own", {{"ops.py", "backward", 12}, {function.c_str(), "apply", 300}}, MemoryCategory::temporary},
      {"FSDP 1 shards", {{flat.c_str(), "_init_flat_param_and_metadata", 600}, {"train.py", "main", 9}}, MemoryCategory::weights},
      {"FSDP 1 gathers", {{flat.c_str(), "_alloc_padded_unsharded_flat_param", 1400}, {module.c_str(), "_call_impl", 1790}, {"train.py", "train", 48}}, MemoryCategory::buffers},
      {"FSDP 2 shards", {{fsdp_param.c_str(), "_init_sharded_param", 300}, {"train.py", "main", 9}}, MemoryCategory::weights},
      {"FSDP 2 gathers", {{fsdp_collectives.c_str(), "foreach_all_gather", 150}, {module.c_str(), "_call_impl", 1790}}, MemoryCategory::buffers},
      {"DDP's buckets", {{ddp.c_str(), "_ddp_init_helper", 1200}, {ddp.c_str(), "__init__", 900}, {"train.py", "main", 9}}, MemoryCategory::gradients},
      {"a collective", {{c10d.c_str(), "all_gather_object", 3000}, {"train.py", "train", 48}}, MemoryCategory::buffers},
      {"Megatron's weights", {{"/m/megatron/core/distributed/param_and_grad_buffer.py", "__init__", 1184}, {"/m/train.py", "main", 5}}, MemoryCategory::weights},
      {"Megatron's gradients", {{"/m/megatron/core/distributed/param_and_grad_buffer.py", "__init__", 1190}, {"/m/train.py", "main", 5}}, MemoryCategory::gradients},
      {"C++ frames of the backward pass", {{"??", "at::native::empty_cuda", 0}, {"??", "torch::autograd::generated::MmBackward0::apply", 0}, {"??", "torch::autograd::Engine::thread_main", 0}},
       MemoryCategory::temporary},
      {"the user's own", {{"train.py", "main", 9}}, MemoryCategory::unattributed},
      {"no frames", {}, MemoryCategory::unattributed}};
  std::vector<StackId> ids;
  for (const Row& row : rows) ids.push_back(stack(table, row.frames));
  StackJudge judge(table);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(std::string(rows[i].name));
    CHECK(category_name(judge.judge(ids[i]).category) == category_name(rows[i].want));
    CHECK(category_name(judge.judge(ids[i]).category) == category_name(rows[i].want));   // the second time from memory
  }
  CHECK(judge.judge(999'999).category == MemoryCategory::unattributed);
}

TEST_CASE("blocks without a stack are gradients as far as weights of their size go round") {
  StackTable table;
  const std::string linear = torch("nn/modules/linear.py");
  const StackId weight = stack(table, {{linear.c_str(), "__init__", 109}, {"train.py", "main", 9}});
  StackJudge judge(table);
  MemoryState state;
  state.blocks = {{1, 4096, 10, weight, false}, {2, 4096, 20, 0, false}, {3, 4096, 30, 0, false}, {4, 8192, 40, 0, false}, {5, 8192, 5, 0, false}, {6, 512, 1, 0, true}};
  for (const LiveBlock& block : state.blocks) state.allocated += block.size;
  state.reserved = state.allocated + 1000;
  const MemoryComposition composition = compose(state, judge, 8);
  const auto bytes = [&](MemoryCategory category) {
    for (const CategoryBytes& by : composition.categories)
      if (by.category == category) return by.bytes;
    return std::int64_t{0};
  };
  CHECK(bytes(MemoryCategory::weights) == 4096);
  CHECK(bytes(MemoryCategory::gradients) == 4096);
  CHECK(bytes(MemoryCategory::temporary) == 4096 + 8192);
  CHECK(bytes(MemoryCategory::unattributed) == 8192);   // older than the last step
  CHECK(bytes(MemoryCategory::cuda_graphs) == 512);
  std::int64_t sum = 0;
  for (const CompositionTerm& term : composition_terms(composition, state)) sum += term.bytes.count();
  CHECK(sum == state.reserved);
}
