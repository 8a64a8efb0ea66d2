// What pytorch/torchtitan prints: the job configuration as JSON ("Running with configs: {",
// "Running with args: {"; with debug.print_config) and the lines by which it states what it built
// (torchtitan/{train,trainer}.py, distributed/parallel_dims.py,
// distributed/activation_checkpoint.py, models/*/infra/parallelize.py, components/metrics.py).
#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/dict_reader.hpp"
#include "parsers/config/line_facts.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kConfigs[] = {"Running with configs: {", "Running with args: {"};

class TorchtitanConfig final : public DictReader {
 public:
  std::string_view name() const override { return "torchtitan configuration"; }
  std::span<const std::string_view> triggers() const override { return kConfigs; }

 protected:
  std::size_t start_of(std::string_view message) override {
    for (const std::string_view mark : kConfigs)
      if (const auto at = message.find(mark); at != std::string_view::npos)
        return at + mark.size() - 1;
    return std::string_view::npos;
  }
  void apply(const FlatSettings& settings, Target& target) override {
    bool ours = false;
    for (const FlatSetting& setting : settings)
      ours |= starts_with_any(setting.name, {"activation_checkpoint.", "parallelism.", "training.",
                                             "trainer.activation_checkpoint."});
    if (!ours) return;
    add_framework(target.config(), "torchtitan");
    target.put(Key::fsdp, std::string("fsdp2"), settings.front().line);
    target.raw(settings);
    apply_torchtitan(settings, target);
  }
};

constexpr std::string_view kMesh = "Building device mesh with parallelism: ";
constexpr std::string_view kOldMesh = "-D device mesh with [";
constexpr std::string_view kCheckpointing = " activation checkpointing to the model";
constexpr std::string_view kTrainer = "Trainer is initialized with local batch size ";
constexpr std::string_view kCapacity = "CUDA capacity: ";
constexpr std::string_view kCount = "Total parameter count: ";
constexpr std::string_view kLines[] = {kMesh,
                                       kOldMesh,
                                       kCheckpointing,
                                       kTrainer,
                                       kCapacity,
                                       kCount,
                                       " total parameters",
                                       "Applied FSDP to the model",
                                       "Applied HSDP to the model",
                                       "Applied fully_shard to the",
                                       "Applied CPU Offloading to the model",
                                       "Compiling each ",
                                       "Training starts at step 1, with local batch size "};

class TorchtitanLines final : public LineReader {
 public:
  std::string_view name() const override { return "reported by torchtitan"; }
  std::span<const std::string_view> triggers() const override { return kLines; }

 protected:
  void read(std::string_view message, const Record&) override {
    if (const std::string_view rest = after_mark(message, kMesh); !rest.empty()) return mesh(rest);
    if (contains(message, kOldMesh) && contains(message, "Building "))
      return old_mesh(after_mark(message, "device mesh with "));
    if (contains(message, kCheckpointing)) {  // "Applied SelectiveAC activation checkpointing to
                                              // the model", "Applied full ..."
      const std::string mode =
          lower(trim(after_mark(message.substr(0, message.find(kCheckpointing)), "Applied ")));
      if (mode.substr(0, 4) == "full")
        say(Key::recompute, "full");
      else if (mode.substr(0, 9) == "selective" || mode.substr(0, 6) == "memory")
        say(Key::recompute, "selective");
      return;
    }
    if (contains(message, kTrainer) || contains(message, "with local batch size ")) {
      number(message, "local batch size ", Key::micro_batch);
      number(message, "global batch size ", Key::global_batch);
      number(message, "gradient accumulation steps ", Key::gradient_accumulation);
      number(message, "gradient_accumulation_steps: ", Key::gradient_accumulation);
      number(message, "sequence length ", Key::seq_length);
      number(message, "total steps ", Key::train_steps);
      return;
    }
    if (const std::string_view rest = after_mark(message, kCapacity);
        contains(rest, " with ")) {  // "NVIDIA H100 80GB HBM3 with 79.11GiB memory"
      const auto with = rest.rfind(" with ");
      say(Key::gpu, trim(rest.substr(0, with)));
      const std::string_view size = rest.substr(with + 6);
      if (const auto bytes = read_bytes(size.substr(0, size.find(" memory"))))
        key(Key::gpu_capacity_bytes, std::to_string(bytes->count()));
      return;
    }
    if (const std::string_view rest = after_mark(message, kCount); !rest.empty()) {
      const std::string dense = number_after(rest, "dense "),
                        sparse = number_after(rest, "sparse ");
      if (!dense.empty()) {
        const auto a = read_integer(dense),
                   b = sparse.empty() ? std::optional<std::int64_t>(0) : read_integer(sparse);
        if (a && b) say(Key::parameters, std::to_string(*a + *b));
      }
      return;
    }
    if (contains(message, " total parameters") && contains(message, "Model ") &&
        contains(message, " size: ")) {
      const std::string_view model =
          after_mark(message.substr(0, message.find(" size: ")), "Model ");
      say(Key::model_type, trim(model));
      key(Key::parameters, number_after(message, " size: "));
      return;
    }
    if (contains(message, "Applied FSDP to the model") ||
        contains(message, "Applied HSDP to the model") ||
        contains(message, "Applied fully_shard to the"))
      say(Key::fsdp, "fsdp2");
    else if (contains(message, "Applied CPU Offloading to the model"))
      say(Key::fsdp_offload, "true");
    else if (contains(message, "Compiling each") && contains(message, "with torch.compile"))
      say(Key::compile, "true");
  }

 private:
  void say(Key what, std::string_view text) {
    key(what, text);
    framework("torchtitan");
  }
  void number(std::string_view message, std::string_view mark, Key what) {
    if (const std::string digits = number_after(message, mark); !digits.empty()) say(what, digits);
  }
  void degree(std::string_view name, const std::string& size) {
    if (size.empty()) return;
    if (name == "pp")
      say(Key::pipeline_parallel, size);
    else if (name == "dp_replicate")
      say(Key::data_parallel_replicate, size);
    else if (name == "dp_shard" || name == "dp")
      say(Key::data_parallel_shard, size);
    else if (name == "cp")
      say(Key::context_parallel, size);
    else if (name == "tp")
      say(Key::tensor_parallel, size);
    else if (name == "ep")
      say(Key::expert_parallel, size);
    else if (name == "etp")
      say(Key::expert_tensor_parallel, size);
  }
  // "pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1"
  void mesh(std::string_view list) {
    for (std::string_view part : split(list, ',')) {
      part = trim(part);
      const auto equals = part.find('=');
      if (equals != std::string_view::npos)
        degree(part.substr(0, equals), digits_of(part.substr(equals + 1)));
    }
  }
  // "['dp_shard', 'tp'], [4, 2]": a dimension of size 1 is not named
  void old_mesh(std::string_view lists) {
    const auto middle = lists.find("], [");
    if (middle == std::string_view::npos) return;
    const auto names = split(lists.substr(1, middle - 1), ','),
               sizes = split(lists.substr(middle + 4), ',');
    for (std::size_t i = 0; i < names.size() && i < sizes.size() && i < 16; ++i) {
      std::string_view name = trim(names[i]);
      if (name.size() > 2) name = name.substr(1, name.size() - 2);
      degree(name, digits_of(sizes[i]));
    }
    for (const std::string_view name : {"pp", "dp_replicate", "dp_shard", "cp", "tp"}) {
      const bool named = contains(lists.substr(0, middle + 1), "'" + std::string(name) + "'") ||
                         (name == "dp_shard" && contains(lists.substr(0, middle), "'dp'"));
      if (!named) degree(name, "1");
    }
  }
};

}  // namespace

std::unique_ptr<ConfigReader> make_torchtitan_config_reader() {
  return std::make_unique<TorchtitanConfig>();
}
std::unique_ptr<ConfigReader> make_torchtitan_lines_reader() {
  return std::make_unique<TorchtitanLines>();
}

}  // namespace triage::parsers
