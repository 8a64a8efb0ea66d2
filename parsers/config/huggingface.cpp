// What scripts on huggingface/transformers print: TrainingArguments(...) in one line or many
// (training_args.py, __str__), the model's configuration ("Model config LlamaConfig {",
// configuration_utils.py), the trainer's lines (trainer.py, _inner_training_loop).
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/dict_reader.hpp"
#include "parsers/config/line_facts.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kArguments[] = {"TrainingArguments(", "SFTConfig(", "GRPOConfig(",
                                           "DPOConfig("};
constexpr std::string_view kModel[] = {"Model config ", "Config {"};
constexpr std::string_view kLines[] = {"Instantaneous batch size per device = ",
                                       "Total train batch size (w. parallel",
                                       "Gradient Accumulation steps = ",
                                       "Total optimization steps = ",
                                       "Number of trainable parameters = ",
                                       "Overriding config: ",
                                       "Quantizing model to ",
                                       "Using torch SDPA for faster",
                                       "Using FlashAttention-2 for faster"};

class TrainingArguments final : public DictReader {
 public:
  std::string_view name() const override { return "training arguments"; }
  std::span<const std::string_view> triggers() const override { return kArguments; }

 protected:
  std::size_t start_of(std::string_view message) override {
    for (const std::string_view mark : kArguments) {
      const auto at = message.find(mark);
      if (at == std::string_view::npos) continue;
      // Not source code: "training_args = TrainingArguments(" and "args=TrainingArguments(" of an
      // echoed line
      const std::string_view before = trim_right(message.substr(0, at));
      if (!before.empty() &&
          (before.back() == '=' || contains(before, "return") || contains(before, "import")))
        return std::string_view::npos;
      std::size_t start = at;
      while (start > 0 && (is_alnum(message[start - 1]) || message[start - 1] == '_')) --start;
      return start;
    }
    return std::string_view::npos;
  }
  // "per_device_train_batch_size=4," or the closing ")"; values that are dicts may break.
  bool fits(std::string_view line) const override {
    const std::string_view text = trim(line);
    if (text == ")" || text.empty()) return true;
    std::size_t end = 0;
    while (end < text.size() && (is_alnum(text[end]) || text[end] == '_')) ++end;
    if (end > 0 && end < text.size() && text[end] == '=') return true;
    return literal_shaped(line);
  }
  void apply(const FlatSettings& settings, Target& target) override {
    if (settings.size() < 5) return;
    add_framework(target.config(), "huggingface");
    target.raw(settings);
    apply_training_arguments(settings, target);
  }
};

class ModelConfig final : public DictReader {
 public:
  std::string_view name() const override { return "model config"; }
  std::span<const std::string_view> triggers() const override { return kModel; }

 protected:
  // "Model config LlamaConfig {"; verl: "Model config after override: Qwen2Config {"; print(model.config): "LlamaConfig {" alone
  std::size_t start_of(std::string_view message) override {
    const auto at = message.find(kModel[0]);
    if (at == std::string_view::npos) return printed_alone(message);
    const auto type = message.find("Config {", at);
    return type == std::string_view::npos || type - at > 96 ? std::string_view::npos : type + 7;
  }
  void apply(const FlatSettings& settings, Target& target) override {
    if (settings.size() < 3) return;
    const Names names(settings);
    if (names.text("model_type").empty() && !names.has("architectures") && !names.has("hidden_size")) return;
    add_framework(target.config(), "huggingface");
    target.raw(settings, "model_config.");
    apply_model_config(settings, target);
  }

 private:
  // configuration_utils.py, __repr__: the class's name, a brace, the end of the line. GenerationConfig is printed the same way and is
  // no model's.
  static std::size_t printed_alone(std::string_view message) {
    const std::string_view text = trim(message);
    if (text.size() < 9 || text.substr(text.size() - 8) != kModel[1] || text.size() > 96) return std::string_view::npos;
    for (const char c : text.substr(0, text.size() - 2))
      if (!is_alnum(c) && c != '_') return std::string_view::npos;
    if (text.substr(0, 10) == "Generation" || text.substr(0, 12) == "BitsAndBytes") return std::string_view::npos;
    return message.find("Config {") + 7;
  }
};

class TrainerLines final : public LineReader {
 public:
  std::string_view name() const override { return "trainer lines"; }
  std::span<const std::string_view> triggers() const override { return kLines; }

 protected:
  void read(std::string_view message, const Record&) override {
    fact(message, kLines[0], Key::micro_batch);
    if (contains(message, kLines[1])) fact(message, "& accumulation) = ", Key::global_batch);
    fact(message, kLines[2], Key::gradient_accumulation);
    fact(message, kLines[3], Key::train_steps);
    fact(message, kLines[4], Key::trainable_parameters);
    // LLaMA-Factory: "Quantizing model to 4 bit with bitsandbytes."
    if (const std::string bits = number_after(message, kLines[6]); bits == "4" || bits == "8")
      key(Key::quantization, bits + "bit"), framework("huggingface");
    if (contains(message, kLines[7])) key(Key::attention, "sdpa"), framework("huggingface");
    if (contains(message, kLines[8])) key(Key::attention, "flash"), framework("huggingface");
    overrides(after_mark(message, kLines[5]));
  }

  void after(Target& target) override {
    if (overrides_.empty()) return;
    const Names names(overrides_);
    apply_model_config(overrides_, target);
    if (names.yes("gradient_checkpointing"))
      target.put(Key::recompute, std::string("full"), line());
    // The MLP's width of the configuration that was overridden no longer holds, unless it was given
    // too.
    const auto hidden = names.integer("n_embd");
    if (hidden && *hidden > 0 && *hidden < (1 << 30) && !names.has("n_inner"))
      target.put(Key::ffn, *hidden * 4, line());
    overrides_.clear();
  }

 private:
  // run_clm.py: "Overriding config: n_embd=7168,n_head=32,n_layer=40"
  void overrides(std::string_view list) {
    overrides_.clear();
    if (list.empty()) return;
    for (const std::string_view part : split(list, ',')) {
      const auto equals = part.find('=');
      if (equals == std::string_view::npos || overrides_.size() > 256) continue;
      overrides_.push_back({std::string(trim(part.substr(0, equals))),
                            std::string(trim(part.substr(equals + 1))), line(), 0});
    }
    for (const FlatSetting& setting : overrides_)
      raw("model_config." + setting.name, setting.value);
  }

  FlatSettings overrides_;

  void fact(std::string_view message, std::string_view mark, Key key) {
    const std::string number = number_after(message, mark);
    if (number.empty()) return;
    this->key(key, number);
    framework("huggingface");
  }
};

}  // namespace

std::unique_ptr<ConfigReader> make_training_arguments_reader() {
  return std::make_unique<TrainingArguments>();
}
std::unique_ptr<ConfigReader> make_model_config_reader() { return std::make_unique<ModelConfig>(); }
std::unique_ptr<ConfigReader> make_trainer_lines_reader() {
  return std::make_unique<TrainerLines>();
}

}  // namespace triage::parsers
