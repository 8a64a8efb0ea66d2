// Names of deepspeedai/DeepSpeed: deepspeed/runtime/{config,constants}.py, zero/config.py;
// docs/_pages/config-json.md.
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"

namespace triage::parsers {
namespace {

constexpr NameRow kRows[] = {
    {"train_micro_batch_size_per_gpu", Key::micro_batch},
    {"train_batch_size", Key::global_batch},
    {"gradient_accumulation_steps", Key::gradient_accumulation},
    {"world_size", Key::world},
    {"zero_optimization_stage", Key::zero_stage},
    {"zero_optimization.stage", Key::zero_stage},
    {"zero_config.stage", Key::zero_stage},
    {"zero_optimization.reduce_bucket_size", Key::reduce_bucket},
    {"zero_config.reduce_bucket_size", Key::reduce_bucket},
    {"zero_optimization.allgather_bucket_size", Key::allgather_bucket},
    {"zero_config.allgather_bucket_size", Key::allgather_bucket},
    {"zero_optimization.overlap_comm", Key::overlap_grad_reduce},
    {"zero_config.overlap_comm", Key::overlap_grad_reduce},
    {"optimizer.type", Key::optimizer, How::lower},
    {"optimizer_name", Key::optimizer, How::lower},
    {"data_types.grad_accum_dtype", Key::main_grads_dtype, How::dtype},
    {"grad_accum_dtype", Key::main_grads_dtype, How::dtype},
    {"zero_optimization.offload_optimizer.ratio", Key::optimizer_offload_fraction},
};

// "none", "cpu", "nvme" of a device setting; an absent part means that nothing is offloaded.
std::string device(const Names& names, std::string_view where, std::string_view part) {
  const std::string name = std::string(where) + "." + std::string(part);
  const std::string_view value = names.text(name + ".device");
  return lower(enum_value(value));
}

}  // namespace

void apply_deepspeed(const FlatSettings& settings, Target& target) {
  const Names names(settings);
  apply_rows(kRows, names, target);
  std::string where = "zero_optimization";
  if (!names.has("zero_optimization.stage") && names.has("zero_config.stage"))
    where = "zero_config";
  if (const FlatSetting* stage = names.find(where + ".stage")) {
    std::string optimizer = device(names, where, "offload_optimizer"),
                params = device(names, where, "offload_param");
    if (names.yes(where + ".cpu_offload")) optimizer = "cpu";  // before 0.3.16
    if (names.yes(where + ".cpu_offload_params")) params = "cpu";
    if (optimizer.empty()) optimizer = "none";
    if (params.empty()) params = "none";
    target.put(Key::zero_offload_optimizer, optimizer, stage->line);
    target.put(Key::zero_offload_param, params, stage->line);
    target.put(Key::optimizer_offload, optimizer != "none", stage->line);
  }
  if (names.yes("bf16.enabled") || names.yes("bfloat16.enabled") || names.yes("bfloat16_enabled"))
    target.put(Key::dtype, std::string("bf16"), names.line("bf16.enabled"));
  else if (names.yes("fp16.enabled") || names.yes("fp16_enabled") || names.yes("float16_enabled"))
    target.put(Key::dtype, std::string("fp16"),
               names.line(names.has("fp16.enabled") ? "fp16.enabled" : "fp16_enabled"));
  // "precision .................... torch.bfloat16" of other versions' print
  if (const std::string_view precision = names.text("precision");
      precision.substr(0, 6) == "torch.")
    target.put_text(Key::dtype, dtype_name(precision), names.line("precision"));
  if (const auto stages = names.integer("pipeline.stages"); stages && *stages > 0)
    target.put(Key::pipeline_parallel, *stages, names.line("pipeline.stages"));
  if (const auto ranks = names.integer("tensor_parallel.autotp_size"); ranks && *ranks > 0)
    target.put(Key::tensor_parallel, *ranks, names.line("tensor_parallel.autotp_size"));
}

}  // namespace triage::parsers
