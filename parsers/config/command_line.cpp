#include "parsers/config/command_line.hpp"

#include <algorithm>

#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/line_facts.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kWords = 4096;
constexpr std::string_view kTriggers[] = {"--micro-batch-size",
                                          "--tensor-model-parallel-size",
                                          "--num-layers",
                                          "--seq-length",  // Megatron-LM
                                          "--per_device_train_batch_size",
                                          "--per-device-train-batch-size",
                                          "--gradient_accumulation_steps",
                                          "--model_name_or_path",  // Hugging Face
                                          "--nproc_per_node",
                                          "--nproc-per-node",
                                          "--num_processes",
                                          "--num_gpus",
                                          "--training.local_batch_size",
                                          "--training.batch_size",
                                          "--training.seq_len",
                                          "actor_rollout_ref.actor.",
                                          "model.micro_batch_size=",
                                          "train.micro_batch_size=",
                                          "model.tensor_model_parallel_size="};

void split_words(std::string_view line, std::vector<std::string>& words, bool inner) {
  std::string word;
  bool quoted = false, any = false;
  char quote = 0;
  const auto finish = [&] {
    if (any && words.size() < kWords) {
      if (!inner && quoted && contains(word, " --") &&
          word.find_first_of(" \t") != std::string::npos) {
        split_words(word, words, true);
      } else if (!word.empty() || quoted) {
        words.push_back(word);
      }
    }
    word.clear();
    quoted = any = false;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
      continue;
    }
    if (c == '\'' || c == '"') {
      quote = c;
      quoted = any = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      any = true;
    } else if (is_space(c)) {
      finish();
    } else {
      word += c;
      any = true;
    }
  }
  finish();
}

bool option_word(std::string_view word) {
  return word.size() > 2 && word[0] == '-' && word[1] == '-' && is_alpha(word[2]);
}

bool program_word(std::string_view word) {
  const auto slash = word.rfind('/');
  if (slash != std::string_view::npos) word = word.substr(slash + 1);
  if (word.size() > 3 && word.substr(word.size() - 3) == ".py") return true;
  return starts_with_any(word, {"python", "torchrun", "deepspeed", "accelerate", "srun", "mpirun",
                                "llamafactory-cli", "megatron-lm", "torch.distributed"});
}

// The options of a command that a line shows, or nothing where the line only speaks of options.
FlatSettings command_of(std::string_view message, std::uint64_t line) {
  if (contains(message, "usage: ") || contains(message, "[--") ||
      contains(message, "unrecognized arguments") || contains(message, "error: argument"))
    return {};
  const std::vector<std::string> words = command_words(message);
  const auto options = std::count_if(words.begin(), words.end(), [](const std::string& word) {
    return option_word(word) ||
           (word.find('=') != std::string::npos && word.find('.') < word.find('='));
  });
  const bool program = std::any_of(words.begin(), words.end(),
                                   [](const std::string& word) { return program_word(word); });
  const std::string_view text = trim(message);
  const bool assignment = contains(message, "ARGS=") || contains(message, "CMD=");
  const bool continued = text.substr(0, 2) == "--" && text.back() == '\\';
  if (!(program && options >= 1) && !(assignment && options >= 2) && !continued) return {};
  return options_of(words, line);
}

// torchrun, accelerate, deepspeed: how many processes.
void apply_launcher(const Names& names, Target& target) {
  const auto per_node = names.integer("nproc_per_node"), nodes = names.integer("nnodes");
  if (per_node && *per_node > 0 && *per_node < 1024) {
    target.put(Key::gpus_per_node, *per_node, names.line("nproc_per_node"));
    const std::int64_t count = names.has("standalone") ? 1 : nodes.value_or(0);
    if (count > 0 && count < 1'000'000)
      target.put(Key::world, *per_node * count, names.line("nproc_per_node"));
  }
  if (const auto world = names.integer("num_processes"); world && *world > 0)
    target.put(Key::world, *world, names.line("num_processes"));
  if (const auto gpus = names.integer("num_gpus"); gpus && *gpus > 0)
    target.put(Key::gpus_per_node, *gpus, names.line("num_gpus"));
}

class CommandLine final : public LineReader {
 public:
  std::string_view name() const override { return "command line"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }

 protected:
  void read(std::string_view message, const Record& record) override {
    options_.clear();
    bool mentioned = false;
    for (const std::string_view trigger : kTriggers) mentioned |= contains(message, trigger);
    if (!mentioned) return;
    options_ = command_of(message, record.line.number);
    for (const FlatSetting& option : options_) raw("--" + option.name, option.value);
  }
  void after(Target& target) override {
    if (!options_.empty()) apply_options(options_, target);
    options_.clear();
  }

 private:
  FlatSettings options_;
};

}  // namespace

std::vector<std::string> command_words(std::string_view line) {
  std::vector<std::string> words;
  split_words(line, words, false);
  if (contains(line, "', '")) {  // Python's list: ['python', '-u', 'main.py']
    bool inside = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::string& word = words[i];
      while (!word.empty() && word.front() == '[') word.erase(word.begin()), inside = true;
      const bool last = inside && !word.empty() && word.back() == ']';
      while (!word.empty() && (word.back() == ',' || word.back() == ']')) word.pop_back();
      if (last) words.resize(i + 1);
    }
  }
  return words;
}

FlatSettings options_of(std::span<const std::string> words, std::uint64_t line) {
  FlatSettings options;
  bool open = false;  // the last option still takes values
  const auto clean = [](std::string_view name) {
    std::string out(name);
    std::replace(out.begin(), out.end(), '-', '_');
    return out;
  };
  for (const std::string& text : words) {
    std::string_view word = text;
    if (option_word(word)) {
      word.remove_prefix(2);
      const auto equals = word.find('=');
      options.push_back(
          {clean(word.substr(0, equals)),
           equals == std::string_view::npos ? std::string() : std::string(word.substr(equals + 1)),
           line, 0});
      open = equals == std::string_view::npos;
      continue;
    }
    const auto equals = word.find('=');
    if (equals != std::string_view::npos && equals > 0 && word.find('.') < equals &&
        (is_alpha(word[0]) || word[0] == '+') &&
        word.substr(0, equals).find('/') == std::string_view::npos) {
      while (word.front() == '+') word.remove_prefix(1);
      const auto at = word.find('=');
      options.push_back(
          {std::string(word.substr(0, at)), std::string(word.substr(at + 1)), line, 0});
      open = false;
      continue;
    }
    if (!open || word == "\\" || word == "&&" || word == ";" || word == "|" ||
        word.substr(0, 2) == "2>" || word == ">" || program_word(word)) {
      open = false;
      continue;
    }
    if (word.size() > 1 && word[0] == '-' && !is_digit(word[1]) && word[1] != '.') {  // "-m", "-u"
      open = false;
      continue;
    }
    std::string& value = options.back().value;
    if (value.size() < kFlatValueBytes) value += (value.empty() ? "" : " ") + std::string(word);
  }
  const std::size_t given = options.size();
  for (std::size_t i = 0; i < given; ++i) {
    if (!options[i].value.empty()) continue;
    if (options[i].name.substr(0, 3) == "no_")
      options.push_back({options[i].name.substr(3), "False", line, 0});
    options[i].value = "True";
  }
  for (FlatSetting& option : options)
    if (option.value.size() > kFlatValueBytes) option.value.resize(kFlatValueBytes);
  return options;
}

bool apply_options(const FlatSettings& options, Target& target) {
  const Names names(options);
  apply_launcher(names, target);
  const auto any = [&](std::initializer_list<std::string_view> list) {
    return std::any_of(list.begin(), list.end(),
                       [&](std::string_view name) { return names.has(name); });
  };
  const auto prefixed = [&](std::string_view head) {
    return std::any_of(options.begin(), options.end(), [&](const FlatSetting& s) {
      return std::string_view(s.name).substr(0, head.size()) == head;
    });
  };
  if (any({"per_device_train_batch_size", "model_name_or_path", "gradient_accumulation_steps",
           "per_device_eval_batch_size"}) &&
      !any({"tensor_model_parallel_size", "micro_batch_size"})) {
    add_framework(target.config(), "huggingface");
    apply_training_arguments(options, target);
    return true;
  }
  if (any({"tensor_model_parallel_size", "micro_batch_size", "seq_length",
           "pipeline_model_parallel_size"}) ||
      (names.has("num_layers") && names.has("hidden_size"))) {
    add_framework(target.config(), "megatron-lm");
    apply_megatron(options, target);
    return true;
  }
  if (prefixed("training.") || prefixed("parallelism.") || prefixed("activation_checkpoint.")) {
    add_framework(target.config(), "torchtitan");
    apply_torchtitan(options, target);
    return true;
  }
  if (prefixed("actor_rollout_ref.")) {
    add_framework(target.config(), "verl");
    apply_verl(options, target);
    return true;
  }
  if (prefixed("model.") && (prefixed("trainer.") || prefixed("train."))) {
    add_framework(target.config(), prefixed("trainer.") ? "nemo" : "megatron-bridge");
    apply_megatron_sections(options, target);
    return true;
  }
  return false;
}

std::unique_ptr<ConfigReader> make_command_line_reader() { return std::make_unique<CommandLine>(); }

}  // namespace triage::parsers
