#include "parsers/config/config_file.hpp"

#include <algorithm>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/command_line.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/python_literal.hpp"
#include "parsers/config/yaml_lines.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kFile = "configuration file";

Place place_of(std::string_view text, std::string_view file, std::size_t offset) {
  offset = std::min(offset, text.size());
  Place place;
  place.file = std::string(file);
  place.offset = offset;
  place.line = static_cast<std::uint64_t>(
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  const auto newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  place.column = offset - start + 1;
  place.source_line = std::string(
      text.substr(start, std::min<std::size_t>(text.find('\n', start), text.size()) - start)
          .substr(0, 200));
  return place;
}

Result<FlatSettings> read_json(std::string_view text, const std::string& file) {
  FlatLiteral literal = read_literal(text);
  if (literal.fault)
    return Error(ErrorCode::syntax, literal.reason)
        .at(place_of(text, file, *literal.fault))
        .context("reading " + file);
  std::size_t at = 0;
  std::uint64_t line = 1;
  for (FlatSetting& setting :
       literal.settings) {  // offsets only grow, but for lists, which close after their elements
    if (setting.offset < at) at = 0, line = 1;
    for (; at < setting.offset; ++at) line += text[at] == '\n' ? 1 : 0;
    setting.line = line;
  }
  return std::move(literal.settings);
}

Result<FlatSettings> read_yaml_settings(std::string_view text, const std::string& file) {
  YamlLines yaml;
  std::uint64_t number = 0;
  std::size_t offset = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (!yaml.add(line, number))
      return Error(ErrorCode::syntax, "this line is neither a setting nor a list item")
          .at(place_of(text, file, offset))
          .context("reading " + file);
    offset += line.size() + 1;
  }
  return yaml.take();
}

// [section] and key = value, as torchtitan's files are.
FlatSettings read_toml(std::string_view text) {
  FlatSettings settings;
  std::string section;
  std::uint64_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty() || line.front() == '#' || settings.size() >= limits::kSettings) continue;
    if (line.front() == '[') {
      while (!line.empty() && line.front() == '[') line.remove_prefix(1);
      section = std::string(trim(line.substr(0, line.find(']'))));
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string_view value = trim(line.substr(equals + 1));
    if (!value.empty() && (value.front() == '"' || value.front() == '\'')) {
      const auto end = value.find(value.front(), 1);
      value = end == std::string_view::npos ? value.substr(1) : value.substr(1, end - 1);
    } else {
      value = trim(value.substr(0, value.find('#')));
    }
    const std::string name(trim(line.substr(0, equals)));
    settings.push_back({section.empty() ? name : section + "." + name,
                        std::string(value.substr(0, kFlatValueBytes)), number, 0});
  }
  return settings;
}

// accelerate's default_config.yaml and axolotl's YAML, as far as they differ from
// TrainingArguments.
void apply_other_trainers(const FlatSettings& settings, Target& target) {
  static constexpr NameRow kAxolotl[] = {
      {"micro_batch_size", Key::micro_batch},
      {"sequence_len", Key::seq_length},
      {"sample_packing", Key::packed_sequences},
      {"lora_r", Key::lora_rank},
      {"optimizer", Key::optimizer, How::lower},
      {"lora_target_modules", Key::lora_targets, How::list},
      {"num_processes", Key::world},
  };
  const Names names(settings);
  apply_rows(kAxolotl, names, target);
  if (names.yes("flash_attention"))
    target.put(Key::attention, std::string("flash"), names.line("flash_attention"));
  const std::string type = lower(names.text("distributed_type"));
  if (type == "fsdp") {
    target.put(Key::fsdp,
               std::string(names.integer("fsdp_config.fsdp_version") == 2 ? "fsdp2" : "fsdp1"),
               names.line("distributed_type"));
    add_framework(target.config(), "fsdp");
    target.put_text(Key::fsdp_strategy, names.text("fsdp_config.fsdp_sharding_strategy"),
                    names.line("fsdp_config.fsdp_sharding_strategy"));
    target.put_text(Key::fsdp_offload, names.text("fsdp_config.fsdp_offload_params"),
                    names.line("fsdp_config.fsdp_offload_params"));
    target.put_text(Key::fsdp_wrap, names.text("fsdp_config.fsdp_transformer_layer_cls_to_wrap"),
                    names.line("fsdp_config.fsdp_transformer_layer_cls_to_wrap"));
    if (names.yes("fsdp_config.fsdp_activation_checkpointing"))
      target.put(Key::recompute, std::string("full"),
                 names.line("fsdp_config.fsdp_activation_checkpointing"));
  } else if (type == "deepspeed") {
    static constexpr NameRow kDeepSpeed[] = {
        {"deepspeed_config.zero_stage", Key::zero_stage},
        {"deepspeed_config.offload_optimizer_device", Key::zero_offload_optimizer, How::lower},
        {"deepspeed_config.offload_param_device", Key::zero_offload_param, How::lower},
        {"deepspeed_config.gradient_accumulation_steps", Key::gradient_accumulation}};
    apply_rows(kDeepSpeed, names, target);
    add_framework(target.config(), "deepspeed");
  }
  const std::string precision = lower(names.text("mixed_precision"));
  if (precision == "bf16" || precision == "fp16")
    target.put(Key::autocast, precision, names.line("mixed_precision"));
}

struct Content {
  const FlatSettings& settings;
  bool has(std::string_view name) const {
    return std::any_of(settings.begin(), settings.end(),
                       [&](const FlatSetting& s) { return s.name == name; });
  }
  bool section(std::string_view head) const {
    return std::any_of(settings.begin(), settings.end(), [&](const FlatSetting& s) {
      return std::string_view(s.name).substr(0, head.size()) == head;
    });
  }
};

Result<RunConfig> apply_content(const FlatSettings& settings, const std::string& file) {
  RunConfig config;
  const Content content{settings};
  Target target(config, file, std::string(kFile));
  target.raw(settings);
  const auto is = [&](std::string_view framework) { add_framework(config, framework); };
  if (content.section("actor_rollout_ref.")) {
    is("verl");
    apply_verl(settings, target);
  } else if (content.has("model_type") || content.has("architectures") ||
             content.section("text_config.")) {
    Target model(config, file, "config.json");
    is("huggingface");
    apply_model_config(settings, model);
  } else if (content.section("zero_optimization.") ||
             content.has("train_micro_batch_size_per_gpu") || content.section("bf16.") ||
             content.section("fp16.")) {
    is("deepspeed");
    apply_deepspeed(settings, target);
  } else if (content.section("parallelism.") || content.section("activation_checkpoint.") ||
             content.has("training.seq_len")) {
    is("torchtitan");
    apply_torchtitan(settings, target);
  } else if (content.section("model.") && content.section("trainer.")) {
    is("nemo");
    apply_megatron_sections(settings, target);
  } else if (content.section("model.") && (content.section("train.") || content.section("ddp.") ||
                                           content.section("optimizer."))) {
    is("megatron-bridge");
    apply_megatron_sections(settings, target);
  } else if (content.has("max_target_length") || content.has("per_device_batch_size")) {
    is("jax");
    apply_maxtext(settings, target);
  } else if (content.has("tensor_model_parallel_size") || content.has("num_layers")) {
    is("megatron-lm");
    apply_megatron(settings, target);
  } else if (content.has("per_device_train_batch_size") || content.has("model_name_or_path") ||
             content.has("base_model") || content.has("distributed_type") ||
             content.has("gradient_accumulation_steps")) {
    is("huggingface");
    apply_training_arguments(settings, target);
    apply_other_trainers(settings, target);
  } else {
    Place place;
    place.file = file;
    return Error(ErrorCode::unsupported, "no known setting of a training program is in " + file)
        .at(std::move(place))
        .help(
            "hand over a config.json, a DeepSpeed JSON, a torchtitan TOML, or a Megatron Bridge, "
            "NeMo, verl, accelerate or axolotl YAML");
  }
  derive(config);
  return config;
}

// The commands of a script: lines joined where a backslash ends them; variables stay unread.
FlatSettings script_options(std::string_view text) {
  FlatSettings all;
  std::string command;
  std::uint64_t number = 0, first = 1;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (command.empty()) first = number;
    if (!line.empty() && line.front() == '#') continue;
    const bool open = !line.empty() && line.back() == '\\';
    if (open) line.remove_suffix(1);
    command += line;
    command += ' ';
    if (open && command.size() < limits::kConfigBytes) continue;
    if (contains(command, "--") || contains(command, "actor_rollout_ref."))
      for (FlatSetting& option : options_of(command_words(command), first))
        if (option.value.find('$') == std::string::npos && all.size() < limits::kSettings)
          all.push_back(std::move(option));
    command.clear();
  }
  return all;
}

Status check_size(std::string_view text, const std::string& file) {
  if (text.size() <= limits::kConfigBytes) return done();
  Place whole;
  whole.file = file;
  return Error(ErrorCode::limit,
               file + " is larger than " + std::to_string(limits::kConfigBytes) + " bytes")
      .at(std::move(whole));
}

}  // namespace

Result<RunConfig> read_config_file(std::string_view text, std::string file) {
  TRIAGE_CHECK(check_size(text, file));
  Place whole;
  whole.file = file;
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  const std::string_view head = trim_left(text);
  if (head.empty()) return Error(ErrorCode::unsupported, file + " is empty").at(std::move(whole));
  if (head.front() == '{') {
    TRIAGE_TRY(const FlatSettings settings, read_json(text, file));
    return apply_content(settings, file);
  }
  const bool script = head.substr(0, 2) == "#!" || contains(text, " \\\n");
  if (script) {
    const FlatSettings options = script_options(text);
    RunConfig config;
    Target target(config, file, std::string(kFile));
    target.raw(options, "--");
    if (apply_options(options, target)) {
      derive(config);
      return config;
    }
  }
  bool toml = head.front() == '[';
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view entry = trim(line);
    if (entry.empty() || entry.front() == '#') continue;
    toml = toml || (contains(entry, " = ") && entry.find(':') > entry.find(" = "));
    break;
  }
  if (toml) return apply_content(read_toml(text), file);
  TRIAGE_TRY(const FlatSettings settings, read_yaml_settings(text, file));
  return apply_content(settings, file);
}

Result<RunConfig> read_model_config(std::string_view text, std::string file) {
  TRIAGE_CHECK(check_size(text, file));
  Place whole;
  whole.file = file;
  if (trim_left(text).empty()) return Error(ErrorCode::unsupported, file + " is empty").at(std::move(whole));
  TRIAGE_TRY(const FlatSettings settings, read_json(text, file));
  RunConfig config;
  Target target(config, file, "config.json");
  target.raw(settings);
  apply_model_config(settings, target);
  if (config.settings().empty())
    return Error(ErrorCode::unsupported, file + " describes no model")
        .at(std::move(whole))
        .help("hand over the config.json of the model");
  add_framework(config, "huggingface");
  derive(config);
  return config;
}

RunConfig read_megatron_arguments(std::span<const std::string> command_line) {
  RunConfig config;
  Target target(config, "", "command line");
  const FlatSettings options = options_of(command_line, 0);
  const Names names(options);
  target.raw(options);
  add_framework(config, "megatron-lm");
  apply_options(options, target);
  apply_megatron(options, target);

  // megatron/training/arguments.py: what holds where nothing is said.
  Target defaults(config, "", "default of megatron-lm");
  const auto number = [&](Key key, std::int64_t value) {
    if (!config.has(key)) defaults.put(key, value, 0);
  };
  const auto flag = [&](Key key, bool value) {
    if (!config.has(key)) defaults.put(key, value, 0);
  };
  const auto word = [&](Key key, std::string value) {
    if (!config.has(key)) defaults.put(key, std::move(value), 0);
  };
  for (const Key key : {Key::tensor_parallel, Key::pipeline_parallel, Key::context_parallel,
                        Key::expert_parallel, Key::virtual_pipeline})
    number(key, 1);
  number(Key::experts, 0);
  number(Key::mtp_layers, 0);
  number(Key::vocab_divisor, 128);
  for (const Key key : {Key::sequence_parallel, Key::distributed_optimizer, Key::gated_mlp,
                        Key::qkv_bias, Key::qk_norm, Key::mla, Key::overlap_grad_reduce,
                        Key::overlap_param_gather, Key::precision_aware_optimizer,
                        Key::optimizer_offload, Key::account_embedding, Key::account_loss})
    flag(key, false);
  flag(Key::tied_embeddings, true);
  flag(Key::linear_bias, true);
  flag(Key::grad_accumulation_fusion, true);
  for (const Key key : {Key::recompute, Key::loss_fusion, Key::cuda_graphs, Key::fsdp})
    word(key, "none");
  word(Key::norm, "layernorm");
  word(Key::dtype, "fp32");
  word(Key::main_grads_dtype, "fp32");
  word(Key::main_params_dtype, "fp32");
  word(Key::exp_avg_dtype, "fp32");
  word(Key::exp_avg_sq_dtype, "fp32");
  word(Key::optimizer, "adam");
  word(Key::transformer_impl, "transformer_engine");
  word(Key::position_embedding, "learned_absolute");
  if (!config.has(Key::attention_dropout)) defaults.put(Key::attention_dropout, 0.1, 0);
  if (!config.has(Key::hidden_dropout)) defaults.put(Key::hidden_dropout, 0.1, 0);
  if (const auto heads = config.integer(Key::heads)) number(Key::kv_heads, *heads);
  if (config.integer(Key::experts).value_or(0) > 0) {
    number(Key::experts_per_token, 2);
    number(Key::shared_expert_ffn, 0);
    word(Key::moe_dispatcher, "allgather");
  }
  derive(config);
  if (config.integer(Key::experts).value_or(0) > 0)
    if (const auto ffn = config.integer(Key::ffn)) number(Key::expert_ffn, *ffn);
  return config;
}

}  // namespace triage::parsers
