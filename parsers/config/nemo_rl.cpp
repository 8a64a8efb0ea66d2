// NeMo-RL's configuration (NVIDIA-NeMo/RL: examples/run_grpo.py and its kin): "Final config:", then
// pprint of the dict, a Python dict over many lines with the keys policy, cluster, grpo, ...
#include "parsers/base/text.hpp"
#include "parsers/config/dict_reader.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {"Final config:"};

constexpr NameRow kRows[] = {
    {"policy.model_name", Key::model_type},
    {"policy.train_micro_batch_size", Key::micro_batch},
    {"policy.train_global_batch_size", Key::global_batch},
    {"policy.max_total_sequence_length", Key::seq_length},
    {"policy.precision", Key::dtype, How::dtype},
    {"policy.sequence_packing.enabled", Key::packed_sequences},
    {"policy.generation.vllm_cfg.tensor_parallel_size", Key::rollout_tensor_parallel},
    {"policy.generation.vllm_cfg.gpu_memory_utilization", Key::rollout_memory_fraction},
    {"cluster.gpus_per_node", Key::gpus_per_node},
};

constexpr NameRow kTensors[] = {
    // the DTensor (FSDP2) back end
    {"policy.dtensor_cfg.tensor_parallel_size", Key::tensor_parallel},
    {"policy.dtensor_cfg.context_parallel_size", Key::context_parallel},
    {"policy.dtensor_cfg.sequence_parallel", Key::sequence_parallel},
    {"policy.dtensor_cfg.cpu_offload", Key::fsdp_offload},
};

constexpr NameRow kMegatron[] = {
    {"policy.megatron_cfg.tensor_model_parallel_size", Key::tensor_parallel},
    {"policy.megatron_cfg.pipeline_model_parallel_size", Key::pipeline_parallel},
    {"policy.megatron_cfg.context_parallel_size", Key::context_parallel},
    {"policy.megatron_cfg.expert_model_parallel_size", Key::expert_parallel},
    {"policy.megatron_cfg.expert_tensor_parallel_size", Key::expert_tensor_parallel},
    {"policy.megatron_cfg.sequence_parallel", Key::sequence_parallel},
    {"policy.megatron_cfg.distributed_data_parallel_config.use_distributed_optimizer",
     Key::distributed_optimizer},
};

class NemoRl final : public DictReader {
 public:
  std::string_view name() const override { return "nemo-rl configuration"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }

 protected:
  std::size_t start_of(std::string_view message) override {
    const auto at = message.find(kTriggers[0]);
    return at == std::string_view::npos ? at : at + kTriggers[0].size();
  }

  void apply(const FlatSettings& settings, Target& target) override {
    const Names names(settings);
    if (!names.has("policy.train_micro_batch_size") &&
        !names.has("policy.max_total_sequence_length"))
      return;
    add_framework(target.config(), "nemo-rl");
    target.raw(settings);
    apply_rows(kRows, names, target);
    const bool megatron = names.yes("policy.megatron_cfg.enabled");
    if (megatron) {
      apply_rows(kMegatron, names, target);
      add_framework(target.config(), "megatron-lm");
    } else if (names.yes("policy.dtensor_cfg.enabled")) {
      apply_rows(kTensors, names, target);
      add_framework(target.config(), "fsdp");
      target.put(Key::fsdp, std::string("fsdp2"), names.line("policy.dtensor_cfg.enabled"));
    }
    const std::string_view recompute = megatron ? "policy.megatron_cfg.activation_checkpointing"
                                                : "policy.dtensor_cfg.activation_checkpointing";
    if (names.has(recompute))
      target.put(Key::recompute, std::string(names.yes(recompute) ? "full" : "none"),
                 names.line(recompute));
    const auto devices = names.integer("cluster.gpus_per_node"),
               nodes = names.integer("cluster.num_nodes");
    if (devices && nodes && *devices > 0 && *nodes > 0 && *devices < 1024 && *nodes < 1'000'000)
      target.put(Key::world, *devices * *nodes, names.line("cluster.num_nodes"));
  }
};

}  // namespace

std::unique_ptr<ConfigReader> make_nemo_rl_reader() { return std::make_unique<NemoRl>(); }

}  // namespace triage::parsers
