#include "signatures/verdict/memory_composition.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <unordered_map>

#include "parsers/base/text.hpp"

namespace triage::signatures {

using parsers::contains;
using parsers::FrameId;
using parsers::LiveBlock;
using parsers::MemoryState;
using parsers::StackId;
using parsers::StackTable;

namespace {

// What a frame's file and function say of the memory asked for below it.
enum Sign : std::uint32_t {
  kSeen = 1,                   // looked at
  kTorch = 2,                  // of PyTorch itself, or of Python
  kPackage = 4,                // of an installed package
  kForward = 8,                // a forward pass
  kBackward = 16,
  kConstruct = 32,             // makes or loads a module
  kOptimizerFile = 64,
  kOptimizerState = 128,       // where optimizers make their states
  kLoss = 256,
  kCommunication = 512,
  kGradientBuffer = 1024,      // DDP and FSDP gradient storage
  kMegatronBuffer = 2048,      // param_and_grad_buffer.py
  kParameterStorage = 4096,    // FSDP's sharded parameters
  kLinear = 8192,              // torch.nn.Linear.forward
  kOutputLayer = 16384,        // makes the logits by name
  kOptimizerStep = 32768,
  kHead = 65536,               // a model class with a head calls its parts here
};

bool any_of(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(text, part); });
}
bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) { return std::ranges::find(names, text) != names.end(); }

std::string_view base_name(std::string_view file) {
  const std::size_t slash = file.find_last_of("/\\");
  return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

// Names from the sources: torch/optim/*.py (_init_group, _multi_tensor_*, _single_tensor_*), apex and Transformer Engine fused_adam.py,
// bitsandbytes/optim/optimizer.py, megatron/core/optimizer/*.py, deepspeed/runtime/zero/*.py, torch/distributed/fsdp/*.
std::uint32_t read_signs(std::string_view file, std::string_view function) {
  const std::string_view base = base_name(file);
  std::uint32_t signs = kSeen;
  // Frames of C++ (stacks="all"): the engine that runs the backward pass, NCCL's buffers, loss kernels.
  if (contains(function, "::") || base.ends_with(".cpp") || base.ends_with(".cc") || base.ends_with(".h") || file == "??") {
    signs |= kTorch | kPackage;
    if (any_of(function, {"autograd::Engine", "autograd::Node::operator()"})) signs |= kBackward;
    if (any_of(function, {"AccumulateGrad", "c10d::Reducer"})) signs |= kGradientBuffer;
    if (any_of(function, {"ProcessGroupNCCL", "symmetric_memory"})) signs |= kCommunication;
    if (any_of(function, {"nll_loss", "cross_entropy", "log_softmax"})) signs |= kLoss;
    return signs;
  }
  const bool package = any_of(file, {"site-packages/", "dist-packages/", "lib/python"});
  const bool torch = any_of(file, {"-packages/torch/", "/torch/nn/", "/torch/utils/", "/torch/autograd/", "/torch/optim/", "/torch/distributed/", "/torch/_"}) || file.starts_with("torch/") ||
                     is_one_of(file, {"??", ""}) || file.starts_with("<frozen");
  if (torch) signs |= kTorch;
  if (package || torch) signs |= kPackage;

  const bool optimizer_file = any_of(file, {"/optim/", "/optimizer/", "/optimizers/", "deepspeed/ops/", "runtime/zero/stage"}) ||
                              any_of(base, {"optimizer", "adam", "lion", "muon", "shampoo", "adafactor", "galore", "lamb", "soap", "sgd.py"});
  if (optimizer_file) {
    signs |= kOptimizerFile;
    const bool own_step = is_one_of(function, {"step", "_step", "update", "_update_momentum"}) && !contains(file, "torch/optim/");
    if (own_step || is_one_of(function, {"_init_group", "init_state", "_init_state", "init_group", "initialize_state", "_initialize_state", "initialize_states",
                                         "_initialize_states", "get_state_buffer", "_init_param_state", "init_param_state", "initialize_optimizer_states",
                                         "_create_fp32_partitions", "_build_model_and_main_param_groups", "_init_optimizer_states", "state_initializer",
                                         "_create_fp32_sub_groups", "_setup_for_real_optimizer", "set_scaled_state", "_add_state"}))
      signs |= kOptimizerState;
    if (contains(function, "step") || function.starts_with("_multi_tensor_") || function.starts_with("_single_tensor_") || function.starts_with("_fused_")) signs |= kOptimizerStep;
    if (function == "__init__" && !contains(file, "torch/optim/")) signs |= kOptimizerState;   // fp32 copies of the weights
  }
  if (is_one_of(function, {"forward", "_forward", "_forward_impl", "forward_step", "_call_impl", "forward_backward_func", "inductor_forward"}) ||
      function.starts_with("_forward_") || function.starts_with("forward_") || (function == "call" && contains(file, "torchinductor")))
    signs |= kForward;
  if (is_one_of(function, {"backward", "_engine_run_backward", "backward_step", "_backward"}) || function.ends_with("_backward")) signs |= kBackward;
  if (is_one_of(function, {"__init__", "from_pretrained", "_from_config", "load_state_dict", "_load_from_state_dict", "reset_parameters", "_apply", "to_empty", "cuda",
                           "_load_pretrained_model", "_load_state_dict_into_meta_model", "build_module", "materialize_meta_module", "init_weights",
                           "initialize_weights", "load_checkpoint", "_load_checkpoint", "dispatch_model", "set_module_tensor_to_device", "get_model"}) ||
      (function == "to" && contains(file, "nn/modules/module.py")))
    signs |= kConstruct;
  if (any_of(function, {"cross_entropy", "log_softmax", "nll_loss", "kl_div", "calculate_logits_max", "vocab_parallel", "logsumexp", "logprobs", "log_probs"}) || function == "loss" ||
      function.ends_with("_loss") || function.ends_with("Loss") || function.starts_with("loss_") || function.starts_with("compute_loss") ||
      any_of(base, {"cross_entropy", "loss_utils", "loss.py", "losses.py"}))
    signs |= kLoss;
  if (is_one_of(function, {"_postprocess", "output_layer", "lm_head", "compute_logits", "get_logits"})) signs |= kOutputLayer;
  if (base == "linear.py" && function == "forward" && contains(file, "nn/modules/")) signs |= kLinear;
  if (base.starts_with("modeling_") && function == "forward") signs |= kHead;
  if (base == "param_and_grad_buffer.py") signs |= kMegatronBuffer;
  if (contains(file, "torch/distributed/fsdp/") || contains(file, "_fully_shard/") || base == "_fsdp_param.py") {
    if (is_one_of(function, {"_init_sharded_param", "flatten_tensors", "flatten_tensors_into_flat_param", "_init_flat_param_and_metadata", "shard", "_init_flat_param"}))
      signs |= kParameterStorage;
    else if (is_one_of(function, {"foreach_reduce", "_get_reduce_scatter_tensors", "_accumulate_sharded_grad", "to_accumulated_grad_if_needed"}))
      signs |= kGradientBuffer;
    else if (any_of(function, {"all_gather", "allgather", "reduce_scatter", "unshard", "_alloc_storage", "_alloc_padded", "copy_in"}))
      signs |= kCommunication;
  }
  if (base == "distributed.py" && function == "_ddp_init_helper") signs |= kGradientBuffer;
  if (is_one_of(base, {"distributed_c10d.py", "_functional_collectives.py", "p2p_communication.py", "_fsdp_collectives.py"}) || any_of(file, {"deep_ep/", "pynccl"}) ||
      any_of(function, {"all_gather_into_tensor", "reduce_scatter_tensor"}) || contains(function, "_ipg_"))
    signs |= kCommunication;
  return signs;
}

constexpr std::array<std::string_view, kMemoryCategories> kNames = {"weights", "gradients", "optimizer",   "activations", "logits",
                                                                    "buffers", "cuda_graphs", "temporary", "unattributed"};

}  // namespace

std::string_view category_name(MemoryCategory category) { return kNames[static_cast<std::size_t>(category)]; }

StackJudge::StackJudge(const StackTable& stacks) : stacks_(stacks), signs_(stacks.frames()), judged_(stacks.stacks()) {
  for (FrameId frame = 0; frame < stacks.frames(); ++frame)
    if (signs_of(frame) & kMegatronBuffer && stacks.function_of(frame) == "__init__")
      last_buffer_line_ = std::max(last_buffer_line_, static_cast<int>(stacks.frame_of(frame).line));
}

std::uint32_t StackJudge::signs_of(FrameId frame) {
  if (!signs_[frame]) signs_[frame] = read_signs(stacks_.file_of(frame), stacks_.function_of(frame));
  return signs_[frame];
}

StackJudgement StackJudge::judge(StackId stack) {
  if (stack == 0 || stack >= judged_.size()) return {};
  if (!judged_[stack]) {
    const StackJudgement made = judge_new(stack);
    judged_[stack] = static_cast<std::uint8_t>((static_cast<unsigned>(made.category) + 1) | (made.sure ? 0x80U : 0U));
  }
  return {static_cast<MemoryCategory>((judged_[stack] & 0x7f) - 1), (judged_[stack] & 0x80) != 0};
}

StackJudgement StackJudge::judge_new(StackId stack) {
  using enum MemoryCategory;
  std::uint32_t all = 0;
  bool forward_seen = false, backward_seen = false, optimizer_seen = false;
  std::size_t heads = 0;                         // forward passes of model classes: 1 is the outermost alone
  const auto frames = stacks_.frames_of(stack);
  for (const FrameId frame : frames) {           // innermost first
    const std::uint32_t signs = signs_of(frame);
    // The optimizer's own frame decides before what called it, and a forward pass before the constructor around it.
    if (signs & kOptimizerFile && !forward_seen && !backward_seen && !optimizer_seen && (signs & (kOptimizerState | kOptimizerStep))) {
      optimizer_seen = true;
      return signs & kOptimizerState ? StackJudgement{optimizer, true} : StackJudgement{temporary, true};
    }
    if (signs & kMegatronBuffer && stacks_.function_of(frame) == "__init__")
      // param_data is made before grad_data there; without a distributed optimizer grad_data alone.
      return stacks_.frame_of(frame).line < last_buffer_line_ ? StackJudgement{weights, true} : StackJudgement{gradients, true};
    if (signs & kParameterStorage) return {weights, true};
    if (signs & kGradientBuffer) return {gradients, true};
    if (signs & kCommunication) return {buffers, true};
    forward_seen = forward_seen || (signs & kForward);
    backward_seen = backward_seen || (signs & kBackward);
    if (signs & kHead) ++heads;
    all |= signs;
  }
  if (all & kBackward) return {temporary, false};
  if (all & kLoss) return {logits, true};
  if (all & kOutputLayer && all & kForward) return {logits, true};
  if (heads == 1 && signs_of(frames.front()) & kLinear) return {logits, false};   // a linear that the whole model calls itself
  if (all & kForward) return {activations, true};
  if (all & kConstruct) return {weights, true};
  return {};
}

std::vector<FrameId> telling_frames(const StackTable& stacks, StackId stack, std::size_t limit) {
  std::vector<FrameId> telling;
  const auto frames = stacks.frames_of(stack);
  std::string_view last_file, last_function;
  for (const FrameId frame : frames) {
    if (telling.size() + 1 >= limit) break;
    const std::uint32_t signs = read_signs(stacks.file_of(frame), stacks.function_of(frame));
    if (signs & kTorch && !(signs & kOptimizerState && telling.empty())) continue;
    // Wrappers say nothing of their own.
    if (!telling.empty() && is_one_of(stacks.function_of(frame), {"wrapper", "__call__", "_fn", "inner", "wrapped", "decorate_context", "compile_wrapper"})) continue;
    if (!telling.empty() && stacks.file_of(frame) == last_file && stacks.function_of(frame) == last_function) continue;
    telling.push_back(frame);
    last_file = stacks.file_of(frame);
    last_function = stacks.function_of(frame);
  }
  // The user's own line, where the frames so far are those of packages.
  for (const FrameId frame : frames) {
    if (read_signs(stacks.file_of(frame), stacks.function_of(frame)) & kPackage) continue;
    if (std::ranges::find(telling, frame) == telling.end() && telling.size() < limit) telling.push_back(frame);
    break;
  }
  if (telling.empty() && !frames.empty()) telling.push_back(frames.front());
  return telling;
}

MemoryComposition compose(const MemoryState& state, StackJudge& judge, std::int64_t before_us) {
  std::array<CategoryBytes, kMemoryCategories> sums;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].category = static_cast<MemoryCategory>(i);
  std::map<std::pair<StackId, MemoryCategory>, StackBytes> stacks;
  const auto count = [&](const LiveBlock& block, StackJudgement judged) {
    CategoryBytes& sum = sums[static_cast<std::size_t>(judged.category)];
    sum.bytes += block.size;
    if (!judged.sure) sum.guessed += block.size;
    ++sum.blocks;
    StackBytes& by = stacks[{block.stack, judged.category}];
    by.stack = block.stack;
    by.category = judged.category;
    by.bytes += block.size;
    by.largest = std::max(by.largest, block.size);
    ++by.blocks;
  };
  std::unordered_map<std::int64_t, std::size_t> weight_sizes;
  bool stacks_recorded = false;
  for (const LiveBlock& block : state.blocks) {
    stacks_recorded = stacks_recorded || block.stack != 0;
    if (!block.private_pool && judge.judge(block.stack).category == MemoryCategory::weights) ++weight_sizes[block.size];
  }
  for (const LiveBlock& block : state.blocks) {
    if (block.private_pool) {
      count(block, {MemoryCategory::cuda_graphs, true});
      continue;
    }
    StackJudgement judged = judge.judge(block.stack);
    const bool of_engine = (block.stack == 0 && stacks_recorded) || (judged.category == MemoryCategory::temporary && !judged.sure);
    if (of_engine) {
      // The thread of the autograd engine has no Python frames. What it makes and keeps are gradients: each as large as its weight.
      const auto weight = weight_sizes.find(block.size);
      if (weight != weight_sizes.end() && weight->second > 0) {
        --weight->second;
        judged = {MemoryCategory::gradients, false};
      } else if (block.stack == 0 && block.time_us > before_us && block.time_us > 0) {
        judged = {MemoryCategory::temporary, false};
      }
    }
    count(block, judged);
  }
  MemoryComposition out;
  for (const CategoryBytes& sum : sums)
    if (sum.blocks) out.categories.push_back(sum);
  std::ranges::stable_sort(out.categories, [](const CategoryBytes& a, const CategoryBytes& b) { return a.bytes > b.bytes; });
  for (const auto& [key, by] : stacks) out.stacks.push_back(by);
  std::ranges::stable_sort(out.stacks, [](const StackBytes& a, const StackBytes& b) { return a.bytes > b.bytes; });
  for (CategoryBytes& sum : out.categories)
    if (sum.category == MemoryCategory::unattributed) sum.guessed = 0;   // nothing is claimed
  return out;
}

std::vector<CompositionTerm> composition_terms(const MemoryComposition& composition, const MemoryState& state) {
  std::vector<CompositionTerm> terms;
  for (const CategoryBytes& category : composition.categories)
    terms.push_back({std::string(category_name(category.category)), parsers::Bytes(category.bytes), Basis::measured, parsers::Bytes(category.guessed)});
  const std::int64_t rest = state.reserved - state.allocated;
  if (rest > 0) terms.push_back({"fragmentation", parsers::Bytes(rest), Basis::measured, parsers::Bytes(0)});
  return terms;
}

}  // namespace triage::signatures
