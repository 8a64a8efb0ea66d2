#include "signatures/verdict/phase.hpp"

#include <algorithm>
#include <array>

#include "signatures/verdict/words.hpp"

namespace triage::signatures {
namespace {

using std::string_view;

// Names of functions and files of PyTorch, Megatron-LM, DeepSpeed, Hugging Face, Lightning, torchtitan, vLLM, SGLang.
constexpr std::array<string_view, 9> kCapture = {"capture_graph", "capture_begin", "init_cuda_graphs", "make_graphed_callables",
                                                 "capture_one_batch_size", "create_cudagraphs", "capture_model", "cuda_graph_capture",
                                                 "create_cuda_graphs"};
constexpr std::array<string_view, 5> kCaptureFiles = {"cuda_graph_runner", "torch/cuda/graphs.py", "full_cuda_graph", "cudagraph_trees",
                                                      "transformer/cuda_graphs.py"};
constexpr std::array<string_view, 12> kOptimizerInit = {
    "_init_group", "init_state", "_init_state", "initialize_optimizer_states", "_initialize_optimizer_states", "_init_optimizer_state",
    "init_optimizer_states", "_configure_basic_optimizer", "initialize_state", "_initialize_state", "_create_fp32_partitions",
    "_build_model_and_main_param_groups"};
constexpr std::array<string_view, 8> kOptimizerStep = {"optimizer_step", "take_model_step", "_take_model_step", "step_with_ready_grads",
                                                       "_optimizer_step", "unscale_and_clip_grads", "clip_grad_norm_", "clip_grad_norm"};
constexpr std::array<string_view, 6> kOptimizerFiles = {"torch/optim/", "optimizers/", "/optimizer/", "optimizer.py", "bitsandbytes/optim",
                                                        "zero/stage"};
constexpr std::array<string_view, 10> kLossNames = {"cross_entropy", "loss_function", "lmlossfunc", "forcausallmloss", "loss_func",
                                                    "language_model_loss", "calculate_logits_max", "chunked_loss", "linear_cross_entropy",
                                                    "log_softmax"};
// A call that stands in an outer frame: what runs below it is the loss.
constexpr std::array<string_view, 10> kLossCalls = {".lm_head(",   "output_layer(",  "cross_entropy(",     ".loss_function(", "loss_fct(",
                                                    "loss_func(",  "criterion(",     "loss_fn(",           "self.loss(",      "embed_out("};
constexpr std::array<string_view, 12> kBackward = {"_engine_run_backward", "run_backward", "_exec_backward_pass", "backward_step",
                                                   "backward_pass", "_backward", "backward_impl", "backward_one_chunk", "loss_backward",
                                                   "_call_autograd", "backward_maybe_with_nosync", "stage_backward"};
constexpr std::array<string_view, 21> kLoad = {
    "from_pretrained", "load_state_dict", "_load_pretrained_model", "load_checkpoint", "_load_state_dict_into_meta_model",
    "set_module_tensor_to_device", "load_model", "_load_base_checkpoint", "load_weights", "_load_from_state_dict", "load_sharded_checkpoint",
    "get_model_loader", "_load_parameter_into_model", "load_file", "caching_allocator_warmup", "_load_state_dict", "load_hf_weights",
    "_flatten_optim_state_dict", "optim_state_dict_to_load", "load_fsdp_optimizer", "_load_optimizer_and_scheduler"};
constexpr std::array<string_view, 14> kCheckpoint = {
    "save_checkpoint", "save_pretrained", "_save_checkpoint", "save_model", "save_state", "state_dict", "_full_post_state_dict_hook",
    "async_save", "save_sharded", "save_fsdp_model", "_full_state_dict", "sharded_state_dict", "save_16bit_model", "_save"};
constexpr std::array<string_view, 16> kEval = {
    "evaluate", "evaluation_loop", "validate", "validation_step", "prediction_step", "evaluate_and_print_results", "test_step", "predict_step",
    "prediction_loop", "generate", "generate_sequences", "wake_up", "evaluation_step", "run_validation", "eval_step", "rollout"};
constexpr std::array<string_view, 13> kComm = {
    "all_gather", "all_gather_into_tensor", "_all_gather_base", "all_reduce", "reduce_scatter", "reduce_scatter_tensor", "broadcast",
    "all_to_all", "all_to_all_single", "barrier", "_broadcast_coalesced", "_sync_module_states", "batch_isend_irecv"};
constexpr std::array<string_view, 12> kCommNames = {"unshard",          "all_gather",         "allgather",          "reduce_scatter",
                                                    "sync_model",       "_sync_params",       "broadcast_params",   "sync_module_states",
                                                    "broadcast_to_vllm", "sync_weights",      "update_weights_from", "update_weight_cuda_ipc"};
constexpr std::array<string_view, 9> kCompile = {"compile_fx", "_compile_fx_inner", "codegen_and_compile", "fx_codegen_and_compile",
                                                 "compile_to_module", "do_autotuning", "make_benchmark_fn", "load_by_key_path", "_compile_to_module"};
constexpr std::array<string_view, 10> kInit = {"__init__", "build_model", "setup_model_and_optimizer", "model_provider", "get_model",
                                              "_replace_sub_module", "materialize", "reset_parameters", "build_module", "deepspeed_init"};
constexpr std::array<string_view, 4> kMove = {"_apply", "convert", "to", "cuda"};

bool library(const parsers::Frame& f) { return parsers::contains(f.file, "/torch/nn/") || parsers::contains(f.file, "/torch/_ops") || parsers::contains(f.file, "/torch/utils/_device"); }

std::string lower(string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return out;
}

Phase optimizer_phase(const parsers::Frame& f) {
  const bool file = any_of(f.file, kOptimizerFiles) || parsers::contains(f.file, "optimizer") || parsers::contains(f.file, "adam");
  if (one_of(f.function, kOptimizerInit) && file) return Phase::optimizer_init;
  if (file && (f.function == "__init__" || f.function == "_copy_and_shard")) return Phase::optimizer_init;
  if (file && parsers::contains(f.source, "zeros_like") && (parsers::contains(f.source, "exp_avg") || parsers::contains(f.source, "state["))) return Phase::optimizer_init;
  if (one_of(f.function, kOptimizerStep)) return Phase::optimizer_step;
  if (file && (f.function == "step" || parsers::contains(f.function, "_multi_tensor_") || parsers::contains(f.function, "_single_tensor_") ||
               parsers::contains(f.function, "_foreach_") || f.function == "adamw" || f.function == "adam" || f.function == "_fused_adam"))
    return Phase::optimizer_step;
  return Phase::unknown;
}

bool loss_frame(const parsers::Frame& f) {
  const std::string name = lower(f.function);
  return any_of(name, kLossNames) || parsers::contains(f.file, "cross_entropy") || parsers::contains(f.file, "loss_utils") || parsers::contains(f.file, "/loss.py");
}

bool backward_frame(const parsers::Frame& f) {
  if (one_of(f.function, kBackward)) return true;
  return f.function == "backward" || parsers::contains(f.function, "_backward_pass") || (parsers::contains(f.file, "autograd/") && parsers::contains(f.function, "backward"));
}

// "load_dataset", "get_train_data", "build_train_valid_test_datasets": the data set as a whole, not a batch of it.
bool loads_data(const parsers::Frame& f) {
  if (library(f) || parsers::contains(f.file, "torch/utils/data")) return false;
  const std::string name = lower(f.function);
  if (parsers::contains(name, "batch") || parsers::contains(name, "metadata")) return false;
  if (!parsers::contains(name, "dataset") && !parsers::contains(name, "_data") && !parsers::contains(name, "dataloader")) return false;
  for (const string_view verb : {"load_", "get_", "read_", "build_", "prepare_", "make_", "setup_", "create_"})
    if (name.starts_with(verb) || name.starts_with("_" + std::string(verb))) return true;
  return false;
}

bool about_checkpoints(string_view file) { return parsers::contains(file, "checkpoint") || parsers::contains(file, "serialization"); }

// What the frame alone says; forward of a library layer says nothing yet.
Phase phase_of_frame(const parsers::Frame& f) {
  if (one_of(f.function, kCapture) || any_of(f.file, kCaptureFiles)) return Phase::capture;
  if (parsers::contains(f.file, "distributed_c10d") && one_of(f.function, kComm)) return Phase::comm;
  if (any_of(f.function, kCommNames) && !library(f)) return Phase::comm;
  if (const Phase p = optimizer_phase(f); p != Phase::unknown) return p;
  if (loss_frame(f)) return Phase::loss;
  if (backward_frame(f)) return Phase::backward;
  if (one_of(f.function, kCompile) || (parsers::contains(f.file, "triton/compiler") && !parsers::contains(f.function, "launch"))) return Phase::compile;
  if (one_of(f.function, kLoad) || (f.function == "load" && about_checkpoints(f.file)) || loads_data(f)) return Phase::load;
  if (f.function == "save" && about_checkpoints(f.file)) return Phase::checkpoint;
  if (one_of(f.function, kCheckpoint) && !parsers::contains(f.file, "/optim")) return Phase::checkpoint;
  if (f.function == "forward" || parsers::contains(f.file, "torchinductor_") || parsers::contains(f.function, "_forward_step") || f.function == "forward_step" ||
      f.function == "_exec_forward_pass" || f.function == "forward_pass" || parsers::contains(f.function, "_forward_"))
    return Phase::forward;
  if (one_of(f.function, kEval)) return Phase::eval;
  if (one_of(f.function, kMove) && parsers::contains(f.file, "torch/nn/modules/module.py")) return Phase::load;
  if (one_of(f.function, kInit)) return Phase::init;
  return Phase::unknown;
}

}  // namespace

Phase phase_of_frames(std::span<const parsers::Frame> frames) {
  Phase phase = Phase::unknown;
  std::size_t at = 0;
  bool weak_forward = false, weak_init = false;
  for (std::size_t i = frames.size(); i-- > 0;) {
    const auto& f = frames[i];
    const Phase p = phase_of_frame(f);
    if (p == Phase::unknown) continue;
    if (library(f) && (p == Phase::forward || p == Phase::init)) {   // nn.Linear.forward, nn.Linear.__init__: who called it decides
      (p == Phase::forward ? weak_forward : weak_init) = true;
      continue;
    }
    phase = p;
    at = i;
    break;
  }
  if (phase == Phase::unknown) return weak_forward ? Phase::forward : weak_init ? Phase::init : Phase::unknown;
  if (phase == Phase::init && weak_forward) phase = Phase::forward;
  const auto outer = frames.first(at);
  const auto outside = [&](auto&& test) { return std::any_of(outer.begin(), outer.end(), test); };
  if (phase == Phase::forward || phase == Phase::loss || phase == Phase::comm || phase == Phase::init) {
    if (outside([](const parsers::Frame& f) { return one_of(f.function, kCapture) || any_of(f.file, kCaptureFiles); })) return Phase::capture;
  }
  if (phase == Phase::forward || phase == Phase::loss) {
    // A forward below the autograd engine is recomputation: the memory is that of the backward pass.
    if (outside(backward_frame)) return Phase::backward;
    if (outside([](const parsers::Frame& f) { return one_of(f.function, kEval); })) return Phase::eval;
  }
  if (phase == Phase::forward) {
    if (any_of(frames[at].source, kLossCalls)) return Phase::loss;
    if (outside([](const parsers::Frame& f) { return any_of(f.source, kLossCalls) && f.function != "compute_loss"; })) return Phase::loss;
  }
  if (phase == Phase::init || phase == Phase::load) {
    if (outside([](const parsers::Frame& f) { return one_of(f.function, kLoad); })) return Phase::load;
  }
  if (phase == Phase::comm && outside([](const parsers::Frame& f) { return one_of(f.function, kCheckpoint); })) return Phase::checkpoint;
  return phase;
}

std::vector<parsers::Frame> frames_in_text(string_view text) {
  constexpr std::size_t kMost = 64;
  constexpr string_view head = "File ", middle = "\", line ";
  std::vector<parsers::Frame> out;
  for (std::size_t at = text.find(head); at != string_view::npos && out.size() < kMost; at = text.find(head, at + 1)) {
    string_view rest = text.substr(at + head.size());
    parsers::consume(rest, "\\");   // JSON escapes the quotes as well
    if (!parsers::consume(rest, "\"")) continue;
    std::size_t end = rest.find(middle);
    if (end == string_view::npos || end == 0 || end > 1024) continue;
    parsers::Frame frame;
    frame.file = std::string(rest.substr(0, rest[end - 1] == '\\' ? end - 1 : end));
    rest.remove_prefix(end + middle.size());
    const auto line = parsers::take_integer(rest);
    if (!line || !parsers::consume(rest, ", in ")) continue;
    frame.line = *line;
    end = rest.find("\\n");
    if (end == string_view::npos || end > 256) continue;
    frame.function = std::string(rest.substr(0, end));
    rest.remove_prefix(end + 2);
    end = rest.find("\\n");
    if (end != string_view::npos && end < 512) frame.source = std::string(parsers::trim(rest.substr(0, end)));
    out.push_back(std::move(frame));
  }
  return out;
}

bool saves_checkpoint(const parsers::Frame& frame) {
  return one_of(frame.function, kCheckpoint) || (frame.function == "save" && about_checkpoints(frame.file));
}

bool asks_checkpoint_writer(const parsers::Frame& frame) {
  constexpr std::array<string_view, 4> kFiles = {"dist_checkpointing/strategies/async_utils.py", "dist_checkpointing/strategies/filesystem_async.py", "checkpointing/async_ckpt/",
                                                 "distributed/checkpoint/_async_process_executor.py"};
  return std::any_of(kFiles.begin(), kFiles.end(), [&](const string_view file) { return parsers::contains(frame.file, file); });
}

bool reads_checkpoint(const parsers::Frame& frame) {
  constexpr std::array<string_view, 16> kReaders = {
      "load_state_dict", "_load_state_dict", "load_checkpoint", "_load_checkpoint", "_load_base_checkpoint", "load_dist_checkpointing",
      "_load_from_state_dict", "load_weights", "_flatten_optim_state_dict", "optim_state_dict_to_load", "load_optimizer", "load_optimizer_state_dict",
      "_load_optimizer_and_scheduler", "load_fsdp_optimizer", "load_fsdp_model", "restore_checkpoint"};
  return one_of(frame.function, kReaders);
}

Phase phase_of_text(string_view text) {
  if (parsers::contains(text, "Failed to clone() tensor") || parsers::contains(text, "state_dict entry could point to invalid memory")) return Phase::checkpoint;
  if (parsers::contains(text, "apture cuda graph failed") || parsers::contains(text, "apture CUDA graph failed")) return Phase::capture;
  if (parsers::contains(text, "Failed to replace")) return Phase::init;
  if (parsers::contains(text, "when instantiating")) return Phase::init;
  if (parsers::contains(text, "sync_model")) return Phase::comm;
  // vLLM's and SGLang's sleep mode maps the memory of the rollout engine back before it generates.
  if (parsers::contains(text, "cumem_allocator") || parsers::contains(text, "torch_memory_saver")) return Phase::eval;
  if (parsers::contains(text, "in loading state_dict for") || parsers::contains(text, "size mismatch for ")) return Phase::load;
  return Phase::unknown;
}

Phase phase_of_kind(string_view kind) {
  struct Row {
    string_view kind;
    Phase phase;
  };
  constexpr std::array<Row, 12> rows = {{{"nccl.timeout", Phase::comm}, {"nccl.desync", Phase::comm}, {"nccl.heartbeat", Phase::comm}, {"nccl.remote", Phase::comm},
                                         {"nccl.net", Phase::comm}, {"dist.gloo_timeout", Phase::comm}, {"dist.rendezvous", Phase::init}, {"gpu.oom.cudagraph", Phase::capture},
                                         {"jax.oom.compile", Phase::compile}, {"env.compile", Phase::compile}, {"env.import", Phase::init}, {"sched.launch", Phase::init}}};
  for (const Row& row : rows)
    if (kind == row.kind || (kind.starts_with(row.kind) && kind[row.kind.size()] == '.')) return row.phase;
  return Phase::unknown;
}

}  // namespace triage::signatures
