// Names of pytorch/torchtitan: torchtitan/config/job_config.py and, in older versions,
// torchtitan/config_manager.py.
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"

namespace triage::parsers {
namespace {

constexpr NameRow kRows[] = {
    {"training.local_batch_size", Key::micro_batch},
    {"training.batch_size", Key::micro_batch},
    {"training.global_batch_size", Key::global_batch, How::positive},
    {"training.seq_len", Key::seq_length},
    {"training.steps", Key::train_steps},
    {"training.enable_cpu_offload", Key::fsdp_offload},
    {"training.dtype", Key::dtype, How::dtype},
    {"parallelism.data_parallel_shard_degree", Key::data_parallel_shard, How::positive},
    {"training.data_parallel_shard_degree", Key::data_parallel_shard, How::positive},
    {"parallelism.data_parallel_replicate_degree", Key::data_parallel_replicate, How::positive},
    {"training.data_parallel_replicate_degree", Key::data_parallel_replicate, How::positive},
    {"parallelism.tensor_parallel_degree", Key::tensor_parallel},
    {"training.tensor_parallel_degree", Key::tensor_parallel},
    {"parallelism.pipeline_parallel_degree", Key::pipeline_parallel},
    {"experimental.pipeline_parallel_degree", Key::pipeline_parallel},
    {"parallelism.context_parallel_degree", Key::context_parallel},
    {"experimental.context_parallel_degree", Key::context_parallel},
    {"parallelism.expert_parallel_degree", Key::expert_parallel},
    {"parallelism.expert_tensor_parallel_degree", Key::expert_tensor_parallel},
    {"optimizer.name", Key::optimizer, How::lower},
    {"compile.enable", Key::compile},
    {"training.compile", Key::compile},
    {"checkpoint.interval", Key::save_interval, How::positive},
};

}  // namespace

void apply_torchtitan(const FlatSettings& settings, Target& target) {
  const Names names(settings);
  apply_rows(kRows, names, target);
  const std::string model = std::string(names.text("model.name"));
  if (!model.empty())
    target.put(Key::model_type,
               names.text("model.flavor").empty()
                   ? model
                   : model + " " + std::string(names.text("model.flavor")),
               names.line("model.name"));
  const std::string mode = lower(names.text("activation_checkpoint.mode"));
  if (mode == "none" || mode == "full" || mode == "selective")
    target.put(Key::recompute, mode, names.line("activation_checkpoint.mode"));
  else if (mode == "memory_budget")
    target.put(Key::recompute, std::string("selective"), names.line("activation_checkpoint.mode"));
  if (mode == "selective")
    if (const auto every = names.integer("activation_checkpoint.selective_ac_option"))
      target.put(Key::recompute_layers, *every,
                 names.line("activation_checkpoint.selective_ac_option"));
  const std::string implementation = lower(names.text("optimizer.implementation"));
  if (!implementation.empty()) {
    target.put(Key::optimizer_fused, implementation.substr(0, 5) == "fused",
               names.line("optimizer.implementation"));
    target.put(Key::optimizer_foreach, implementation == "foreach",
               names.line("optimizer.implementation"));
  } else if (names.yes("optimizer.fused") || names.no("optimizer.fused")) {
    target.put(Key::optimizer_fused, names.yes("optimizer.fused"), names.line("optimizer.fused"));
  }
  const std::string reshard = lower(names.text("parallelism.fsdp_reshard_after_forward"));
  if (reshard == "always" || reshard == "never")
    target.put(Key::reshard_after_forward, reshard == "always",
               names.line("parallelism.fsdp_reshard_after_forward"));
  const std::string compute = dtype_name(names.text("training.mixed_precision_param"));
  if (compute == "bf16" || compute == "fp16")
    target.put(Key::autocast, compute, names.line("training.mixed_precision_param"));
}

}  // namespace triage::parsers
