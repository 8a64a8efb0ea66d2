#include "daemon/pipeline/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "daemon/pipeline/triage.hpp"
#include "parsers/base/nearest.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/config/command_line.hpp"
#include "parsers/config/config_file.hpp"
#include "parsers/config/megatron_values.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/target.hpp"
#include "signatures/plan/cards.hpp"
#include "signatures/plan/change.hpp"
#include "signatures/plan/rank.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Key;
using parsers::Result;
using parsers::RunConfig;
using parsers::Status;

namespace {

constexpr signatures::PlanLimits kFixes{14, 4};    // changes that a plan shows

// The configuration of the logs, and the out-of-memory failure among what they tell; without one only their memory reports.
void read_logs(const Knowledge& knowledge, std::vector<signatures::SourceFindings> logs, parsers::TimePoint now, RunConfig& config,
               signatures::Diagnosis& diagnosis) {
  std::vector<parsers::MemoryReport> reports;
  for (const signatures::SourceFindings& source : logs) {
    parsers::merge(config, source.config);
    for (const parsers::MemoryReport& report : source.memory)
      if (reports.size() < 64) reports.push_back(report);
  }
  Answer answer = judge_sources(knowledge, std::move(logs), now);
  for (JudgedIncident& incident : answer.incidents)
    if (incident.diagnosis.kind.starts_with("gpu.oom") && diagnosis.kind.empty()) diagnosis = std::move(incident.diagnosis);
  if (diagnosis.memory.empty()) diagnosis.memory = std::move(reports);
}

// Flags of Megatron-LM on which memory depends: a flag that changes nothing and is spelled almost like one of them was meant to be it.
constexpr std::array<std::string_view, 60> kMegatronFlags = {
    "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "group-query-attention", "num-query-groups", "kv-channels", "seq-length",
    "max-position-embeddings", "micro-batch-size", "global-batch-size", "vocab-size", "padded-vocab-size", "make-vocab-size-divisible-by", "bf16", "fp16",
    "swiglu", "disable-bias-linear", "normalization", "position-embedding-type", "untie-embeddings-and-output-weights", "qk-layernorm",
    "tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size", "expert-model-parallel-size", "expert-tensor-parallel-size",
    "sequence-parallel", "num-layers-per-virtual-pipeline-stage", "pipeline-model-parallel-layout", "use-distributed-optimizer",
    "use-precision-aware-optimizer", "main-grads-dtype", "exp-avg-dtype", "exp-avg-sq-dtype", "grad-reduce-in-bf16", "optimizer-cpu-offload",
    "optimizer-offload-fraction", "recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules", "recompute-activations",
    "use-megatron-fsdp", "data-parallel-sharding-strategy", "cross-entropy-loss-fusion", "cross-entropy-fusion-impl", "transformer-impl", "attention-backend",
    "num-experts", "moe-router-topk", "moe-ffn-hidden-size", "moe-shared-expert-intermediate-size", "moe-layer-freq", "moe-token-dispatcher-type",
    "moe-grouped-gemm", "moe-expert-capacity-factor", "multi-latent-attention", "q-lora-rank", "kv-lora-rank"};
constexpr std::size_t kOptions = 256;              // looked at one by one
constexpr std::size_t kNearEnough = 3;             // edits between a mistyped flag and the one that was meant

std::map<Key, std::string> plain_settings(const parsers::FlatSettings& options) {
  RunConfig config;
  parsers::Target target(config, "", "");
  parsers::apply_options(options, target);
  std::map<Key, std::string> out;
  for (const auto& [key, setting] : config.settings()) out.emplace(key, parsers::value_text(setting.value));
  return out;
}

// Options without which the configuration would be the same: no part of the memory model, or not known.
std::vector<std::string> options_without_effect(const parsers::FlatSettings& options) {
  std::vector<std::string> out;
  if (options.size() > kOptions) return out;
  const auto all = plain_settings(options);
  for (std::size_t i = 0; i < options.size(); ++i) {
    // "--no-x" alone stands for itself and for x, which nobody wrote (it is added at the end): the two are one option.
    const auto is = [&](std::size_t at, const std::string& name, std::string_view value) { return options[at].name == name && options[at].value == value; };
    const std::string negated = options[i].name.starts_with("no_") ? options[i].name.substr(3) : "";
    bool derived = false;
    parsers::FlatSettings others;
    for (std::size_t at = 0; at < options.size(); ++at) {
      derived = derived || (options[i].value == "False" && is(at, "no_" + options[i].name, "True"));
      if (at != i && (negated.empty() || !is(at, negated, "False"))) others.push_back(options[at]);
    }
    if (derived) continue;
    if (plain_settings(others) != all) continue;
    std::string flag = options[i].name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    std::string_view meant;
    std::size_t edits = kNearEnough + 1;
    for (const std::string_view known : kMegatronFlags)
      if (flag.size() <= 64 && flag != known)
        if (const std::size_t distance = parsers::edit_distance(flag, known); distance < edits && distance * 3 < known.size()) edits = distance, meant = known;
    const bool known = std::find(kMegatronFlags.begin(), kMegatronFlags.end(), flag) != kMegatronFlags.end();
    if (known) continue;
    out.push_back("--" + flag + (meant.empty() ? "" : " (did you mean --" + std::string(meant) + "?)"));
  }
  // What may have been meant otherwise comes first.
  std::stable_partition(out.begin(), out.end(), [](const std::string& text) { return text.back() == ')'; });
  return out;
}

// Where a shell's comment begins: a '#' after a blank or at the start, outside quotes.
std::size_t comment_of(std::string_view line) {
  char quote = 0, before = ' ';
  for (std::size_t i = 0; i < line.size(); before = line[i++]) {
    if (quote != 0) quote = line[i] == quote ? 0 : quote;
    else if (line[i] == '\'' || line[i] == '"') quote = line[i];
    else if (line[i] == '#' && (before == ' ' || before == '\t')) return i;
  }
  return line.size();
}

// A command over several lines is one input; of a script, comments and the bracket that closes an array are no part of it.
std::string one_command(std::string_view text) {
  std::string joined;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view whole = text.substr(at, end - at), line = whole.substr(0, comment_of(whole));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] != ')')
      for (const char c : line)
        if (c != '\\') joined += c;
    joined += ' ';
    at = end + 1;
  }
  return joined;
}

Status read_texts(const PlanInput& input, RunConfig& config, std::vector<std::string>& ignored) {
  if (!input.megatron_arguments.empty()) {
    const std::vector<std::string> words = parsers::command_words(one_command(input.megatron_arguments));
    const parsers::FlatSettings options = parsers::options_of(words, 0);
    if (Status status = parsers::check_megatron_values(options); !status.ok()) return status;
    parsers::merge(config, parsers::read_megatron_arguments(words));
    ignored = options_without_effect(options);
  }
  if (input.model) {
    Result<RunConfig> read = parsers::read_model_config(input.model->text, input.model->name);
    if (!read.ok()) return std::move(read).error();
    parsers::merge(config, *read);
  }
  for (const NamedText& file : input.configs) {
    Result<RunConfig> read = parsers::read_config_file(file.text, file.name);
    if (!read.ok()) return std::move(read).error();
    parsers::merge(config, *read);
  }
  return parsers::done();
}

std::string nearest_keys(const std::string& name) {
  std::string out;
  for (const parsers::KeyInfo& info : parsers::all_keys())
    if (info.name.find(name.substr(0, std::max<std::size_t>(3, name.find('_')))) != std::string_view::npos) out += (out.empty() ? "" : ", ") + std::string(info.name);
  return out.empty() ? "the names stand in the answer's \"config\"" : "near it: " + out;
}

// Of counts that a run has at least one of; others may be 0.
std::int64_t least_of(Key key) {
  constexpr std::array<Key, 15> kAtLeastOne = {Key::world, Key::tensor_parallel, Key::pipeline_parallel, Key::context_parallel, Key::expert_parallel,
                                               Key::expert_tensor_parallel, Key::data_parallel, Key::micro_batch, Key::global_batch, Key::seq_length,
                                               Key::gradient_accumulation, Key::layers, Key::hidden, Key::heads, Key::gpus_per_node};
  return std::find(kAtLeastOne.begin(), kAtLeastOne.end(), key) != kAtLeastOne.end() ? 1 : 0;
}

Status put_settings(const PlanInput& input, RunConfig& config) {
  for (const auto& [name, value] : input.settings) {
    const auto key = parsers::key_by_name(name == "hf" ? "huggingface" : name);
    if (!key) return Error(ErrorCode::not_found, "there is no setting '" + name + "'").help(nearest_keys(name));
    std::string text = value;
    if (*key == Key::framework && text == "hf") text = "huggingface";
    if (*key == Key::framework && !signatures::is_framework_name(text)) return Error(ErrorCode::not_found, "there is no framework '" + text.substr(0, 60) + "'").help("for example huggingface, megatron-lm, megatron-bridge, torchtitan, deepspeed");
    if (*key == Key::dtype) {
      text = parsers::dtype_name(text);
      if (text != "bf16" && text != "fp16" && text != "fp32") return Error(ErrorCode::syntax, "dtype is '" + value.substr(0, 60) + "'").help("known: bf16, fp16, fp32");
    }
    RunConfig one;
    if (Status status = one.set_text(*key, text, "flag"); !status.ok()) {
      const Error& why = status.error();
      return Error(why.code(), why.message());   // a flag has no place
    }
    if (const auto number = one.integer(*key); number && *number < least_of(*key))
      return Error(ErrorCode::conflict, std::string(parsers::key_info(*key).name) + " is " + std::to_string(*number) + ": the least is " + std::to_string(least_of(*key)));
    const parsers::Setting* setting = one.find(*key);
    if (!setting) {
      config.unset(*key);
      continue;
    }
    if (*key == Key::framework) parsers::add_framework(config, text);
    signatures::change_setting(config, *key, setting->value, "flag");
  }
  return parsers::done();
}

Result<std::optional<parsers::Bytes>> capacity_of(const PlanInput& input, const RunConfig& config) {
  if (!input.capacity.empty()) {
    const auto bytes = parsers::read_bytes(input.capacity);
    if (!bytes || bytes->count() <= 0) return Error(ErrorCode::syntax, "the capacity '" + input.capacity + "' is not a size").help("for example 80GiB");
    return std::optional<parsers::Bytes>(*bytes);
  }
  if (!input.gpu.empty()) {
    const auto bytes = signatures::card_capacity(input.gpu);
    if (!bytes) return Error(ErrorCode::not_found, "the card '" + input.gpu + "' is not known").help("known: " + signatures::card_names() + "; or give the capacity, for example 80GiB");
    return bytes;
  }
  if (const auto stated = config.integer(Key::gpu_capacity_bytes)) return std::optional<parsers::Bytes>(parsers::Bytes(*stated));
  return std::optional<parsers::Bytes>();
}

// A run that failed says what its configuration leaves open (images, routing); with that known a changed configuration is modelled. The
// figures themselves are of the run as it was and do not calibrate another one.
Result<signatures::Forecast> what_if(const PlanInput& input, const signatures::Diagnosis& diagnosis, const RunConfig& ran, const RunConfig& config, bool from_log) {
  if (!from_log || input.settings.empty() || diagnosis.kind.empty()) return signatures::forecast_of(diagnosis, config);
  const Result<signatures::Forecast> seen = signatures::forecast_of(diagnosis, ran);
  if (!seen.ok()) return signatures::forecast_of(diagnosis, config);
  RunConfig changed = seen->config();
  if (Status status = put_settings(input, changed); !status.ok()) return std::move(status).error();
  signatures::Diagnosis planned;         // the card stays, what was measured goes
  planned.config = changed;
  planned.frameworks = diagnosis.frameworks;
  if (diagnosis.ledger) {
    planned.ledger.emplace();
    planned.ledger->capacity = diagnosis.ledger->capacity;
    planned.ledger->outside_pytorch = diagnosis.ledger->outside_pytorch;
  }
  return signatures::forecast_of(planned, changed);
}

signatures::Phase phase_of(signatures::memory::Phase phase) {
  using From = signatures::memory::Phase;
  switch (phase) {
    case From::init: return signatures::Phase::load;
    case From::forward: return signatures::Phase::forward;
    case From::loss: return signatures::Phase::loss;
    case From::backward: return signatures::Phase::backward;
    case From::optimizer_step: return signatures::Phase::optimizer_step;
    case From::first_step: return signatures::Phase::optimizer_init;
  }
  return signatures::Phase::unknown;
}

}  // namespace

Result<MemoryPlan> make_memory_plan(const Knowledge& knowledge, PlanInput input, parsers::TimePoint now) {
  RunConfig config;
  signatures::Diagnosis diagnosis;       // of the logs' out-of-memory failure where there is one; else only a kind
  const bool from_log = !input.logs.empty();
  if (from_log) read_logs(knowledge, std::move(input.logs), now, config, diagnosis);
  std::vector<std::string> ignored;
  if (Status status = read_texts(input, config, ignored); !status.ok()) return std::move(status).error();
  parsers::derive(config);
  const RunConfig ran = config;          // what the logs' figures belong to
  if (Status status = put_settings(input, config); !status.ok()) return std::move(status).error();
  if (config.empty())
    return Error(ErrorCode::not_found, "there is no configuration to plan");

  Result<std::optional<parsers::Bytes>> capacity = capacity_of(input, config);
  if (!capacity.ok()) return std::move(capacity).error();
  if (!input.gpu.empty()) config.set(Key::gpu, input.gpu, "flag");
  diagnosis.config = config;
  diagnosis.frameworks = config.frameworks();
  if (*capacity) {
    if (!diagnosis.ledger) diagnosis.ledger.emplace();
    diagnosis.ledger->capacity = *capacity;
  }
  Result<signatures::Forecast> foretold = what_if(input, diagnosis, ran, config, from_log);
  if (!foretold.ok()) return std::move(foretold).error();
  config = foretold->config();
  const auto forecast = std::make_shared<const signatures::Forecast>(std::move(*foretold));
  // A run that was seen has a layout that can be, whatever was misread; one that is planned has to have one.
  if (!from_log) {
    const signatures::memory::Estimate& planned = forecast->estimate();
    std::string faults;
    for (const std::string& fault : signatures::memory::layout_faults(planned.layout, planned.shape)) faults += (faults.empty() ? "" : "; ") + fault;
    if (!faults.empty()) return Error(ErrorCode::conflict, "this layout cannot run: " + faults);
  }
  if (diagnosis.kind.empty()) diagnosis.phase = phase_of(forecast->estimate().highest().peak_phase);
  diagnosis.kind = "gpu.oom.capacity";

  MemoryPlan made{forecast->config(), std::move(ignored), *capacity, forecast, {}, {}, {}};
  made.plan = signatures::plan_fixes(diagnosis, knowledge.fixes(), kFixes, forecast);
  std::erase_if(made.plan.fixes, [](const signatures::Fix& fix) { return !fix.saving; });
  for (std::size_t i = 0; i < made.plan.fixes.size(); ++i) made.plan.fixes[i].rank = static_cast<int>(i) + 1;
  if (made.forecast->now().fits) made.plan.verdict.clear();
  if (input.sweep) made.sweep = signatures::sweep_layouts(*made.forecast, made.config);
  if (input.rank) {
    const auto stages = static_cast<long>(made.forecast->estimate().stages.size());
    const long world = static_cast<long>(made.forecast->estimate().layout.world);
    if (*input.rank < 0 || *input.rank >= std::max(world, 1L))
      return Error(ErrorCode::conflict, "the rank is " + std::to_string(*input.rank) + ", but the job has " + std::to_string(world) + " ranks");
    // Megatron's order of ranks: tensor, context, expert, data, pipeline; the pipeline rank changes slowest.
    made.pipeline_rank = *input.rank / std::max(1L, world / std::max(1L, stages));
  }
  return made;
}

}  // namespace triage::daemon
