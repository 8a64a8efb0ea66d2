// Single lines by which Megatron-LM, megatron-core and NeMo state what they set up. Sources:
// megatron/training/{arguments,initialize, training}.py,
// megatron/core/{num_microbatches_calculator, optimizer/__init__,
// distributed/distributed_data_parallel}.py, NeMo:
// nemo/collections/nlp/modules/common/megatron/megatron_init.py, nemo/lightning/megatron_init.py.
#include <algorithm>
#include <utility>

#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/line_facts.hpp"
#include "parsers/config/python_literal.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kWorld = "using world size: ";
constexpr std::string_view kParameters = "number of parameters on (tensor";
constexpr std::string_view kPadded = "padded vocab (size: ";
constexpr std::string_view kNemoPadded = "Padded vocab_size: ";
constexpr std::string_view kMicrobatches = "setting number of micro";
constexpr std::string_view kGroups = "model parallel group ranks: [[";
constexpr std::string_view kContextGroups = "All context parallel group ranks: [[";
constexpr std::string_view kInitialized = "model parallel with size ";
constexpr std::string_view kParams = " for parameters ...";
constexpr std::string_view kTorchOptimizers = "Falling back to Torch optimizers";
constexpr std::string_view kReprs[] = {
    "DistributedDataParallelConfig(",
    "OptimizerConfig(lr=", "OptimizerConfig(optimizer=", "TransformerConfig(", "ModelProvider("};

constexpr std::string_view kTriggers[] = {kWorld,
                                          kParameters,
                                          kPadded,
                                          kNemoPadded,
                                          kMicrobatches,
                                          kGroups,
                                          kContextGroups,
                                          kInitialized,
                                          kParams,
                                          kTorchOptimizers,
                                          "DistributedDataParallelConfig(",
                                          "OptimizerConfig(lr=",
                                          "OptimizerConfig(optimizer=",
                                          "TransformerConfig(",
                                          "ModelProvider("};

class MegatronLines final : public LineReader {
 public:
  std::string_view name() const override { return "reported by megatron"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }

 protected:
  void read(std::string_view message, const Record&) override {
    most_.clear();
    repr_.clear();
    if (const std::string_view rest = after_mark(message, kWorld); !rest.empty())
      return world(message.substr(message.find(kWorld) + 6));
    if (contains(message, kParameters)) return parameters(message);
    if (contains(message, kPadded)) {
      const std::string size = number_after(message, "(size: "),
                        padded = number_after(message, "(new size: ");
      if (!size.empty()) key(Key::vocab, size);
      if (!padded.empty()) key(Key::padded_vocab, padded);
      return;
    }
    if (contains(message, kNemoPadded)) {
      const std::string size = number_after(message, "original vocab_size: "),
                        padded = number_after(message, kNemoPadded);
      if (!padded.empty()) key(Key::padded_vocab, padded);
      if (!size.empty()) key(Key::vocab, size);
      framework("nemo");
      return;
    }
    if (contains(message, kMicrobatches)) {
      const std::string count = number_after(message, "to constant ");
      if (!count.empty()) key(Key::gradient_accumulation, count), framework("megatron-lm");
      return;
    }
    if (contains(message, kGroups) || contains(message, kContextGroups)) return groups(message);
    if (contains(message, kInitialized)) {
      const std::string size = number_after(message, kInitialized);
      if (size.empty()) return;
      if (contains(message, "initialized tensor "))
        key(Key::tensor_parallel, size), framework("megatron-lm");
      if (contains(message, "initialized pipeline "))
        key(Key::pipeline_parallel, size), framework("megatron-lm");
      return;
    }
    if (contains(message, kParams)) {
      const std::string_view type = after_mark(message.substr(0, message.find(kParams)), "using ");
      if (type.substr(0, 6) == "torch.")
        key(Key::dtype, dtype_name(type)), framework("megatron-lm");
      return;
    }
    if (contains(message, kTorchOptimizers)) {
      key(Key::optimizer_fused, "false");
      framework("megatron-lm");
      return;
    }
    for (const std::string_view mark : kReprs)
      if (contains(message, mark)) return repr(message, message.find(mark));
  }

  void after(Target& target) override {
    if (!most_.empty()) {  // every tensor and pipeline rank prints its own: the fullest one is
                           // kept, no conflict
      const auto count = read_integer(most_);
      const auto known = target.config().integer(Key::parameters_per_rank);
      if (count && (!known || *known < *count)) {
        target.config().unset(Key::parameters_per_rank);
        target.put(Key::parameters_per_rank, *count, line());
      }
      most_.clear();
    }
    if (!repr_.empty()) {
      apply_megatron(repr_, target);
      repr_.clear();
    }
  }

 private:
  // "world size: 8, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2,
  // pipeline-model-parallel size: 1"
  void world(std::string_view list) {
    for (std::string_view part : split(list, ',')) {
      part = trim(part);
      const auto colon = part.rfind(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view name = part.substr(0, colon);
      const std::string value = digits_of(part.substr(colon + 1));
      if (value.empty()) continue;
      raw(name, value);
      if (name == "world size")
        key(Key::world, value);
      else if (starts_with_any(name, {"data-parallel"}))
        key(Key::data_parallel, value);
      else if (starts_with_any(name, {"context-parallel"}))
        key(Key::context_parallel, value);
      else if (starts_with_any(name, {"tensor-model-parallel"}))
        key(Key::tensor_parallel, value);
      else if (starts_with_any(name, {"pipeline-model-parallel"}))
        key(Key::pipeline_parallel, value);
    }
    framework("megatron-lm");
  }

  void parameters(std::string_view message) {
    const auto at = message.find(kParameters), close = message.find("): ", at);
    if (close == std::string_view::npos) return;
    most_ = digits_of(message.substr(close + 3));
    if (most_.empty()) return;
    raw(message.substr(at, close + 1 - at), most_);
    framework("megatron-lm");
  }

  // "All tensor model parallel group ranks: [[0, 1], [2, 3]]": the size of the first group
  void groups(std::string_view message) {
    const auto open = message.find("[["), close = message.find(']', open);
    if (close == std::string_view::npos) return;
    const std::string_view group = message.substr(open + 2, close - open - 2);
    const std::string size = std::to_string(1 + std::count(group.begin(), group.end(), ','));
    if (contains(message, "All tensor model parallel group ranks"))
      key(Key::tensor_parallel, size);
    else if (contains(message, "All pipeline model parallel group ranks"))
      key(Key::pipeline_parallel, size);
    else if (contains(message, "All context parallel group ranks"))
      key(Key::context_parallel, size);
    else
      return;
    framework("nemo");
  }

  // "... with config OptimizerConfig(lr=0.0001, ...)"
  void repr(std::string_view message, std::size_t at) {
    while (at > 0 && (is_alnum(message[at - 1]) || message[at - 1] == '_')) --at;
    const std::string_view text = message.substr(at);
    const std::string_view type = text.substr(0, text.find('('));
    FlatLiteral literal = read_literal(text);
    if (literal.settings.size() < 3) return;
    const bool ddp = type == "DistributedDataParallelConfig";
    for (FlatSetting& setting : literal.settings) {
      setting.line = line();
      raw(std::string(type) + "." + setting.name, setting.value);
      if (ddp && setting.name == "bucket_size") setting.name = "ddp_bucket_size";
    }
    if (!ddp)
      std::erase_if(literal.settings, [](const FlatSetting& s) {
        return s.name == "overlap_param_gather";
      });  // the DDP's counts
    repr_ = std::move(literal.settings);
    framework(contains(type, "ModelProvider") ? "megatron-bridge" : "megatron-lm");
  }

  std::string most_;
  FlatSettings repr_;
};

}  // namespace

std::unique_ptr<ConfigReader> make_megatron_lines_reader() {
  return std::make_unique<MegatronLines>();
}

}  // namespace triage::parsers
