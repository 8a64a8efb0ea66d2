#include "daemon/pipeline/memory_plan.hpp"

#include <algorithm>
#include <utility>

#include "daemon/pipeline/triage.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/config/command_line.hpp"
#include "parsers/config/config_file.hpp"
#include "parsers/config/merge.hpp"
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

Status read_texts(const PlanInput& input, RunConfig& config) {
  if (!input.megatron_arguments.empty()) {
    // A command over several lines is one input.
    std::string joined;
    for (const char c : input.megatron_arguments)
      if (c != '\\') joined += c == '\n' ? ' ' : c;
    parsers::merge(config, parsers::read_megatron_arguments(parsers::command_words(joined)));
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

Status put_settings(const PlanInput& input, RunConfig& config) {
  for (const auto& [name, value] : input.settings) {
    const auto key = parsers::key_by_name(name == "hf" ? "huggingface" : name);
    if (!key) return Error(ErrorCode::not_found, "there is no setting '" + name + "'").help(nearest_keys(name));
    std::string text = value;
    if (*key == Key::framework && text == "hf") text = "huggingface";
    RunConfig one;
    if (Status status = one.set_text(*key, text, "flag"); !status.ok()) return std::move(status).error();
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
  if (!input.logs.empty()) read_logs(knowledge, std::move(input.logs), now, config, diagnosis);
  if (Status status = read_texts(input, config); !status.ok()) return std::move(status).error();
  parsers::derive(config);
  if (Status status = put_settings(input, config); !status.ok()) return std::move(status).error();
  if (config.empty())
    return Error(ErrorCode::not_found, "there is no configuration to plan");

  Result<std::optional<parsers::Bytes>> capacity = capacity_of(input, config);
  if (!capacity.ok()) return std::move(capacity).error();
  diagnosis.config = config;
  diagnosis.frameworks = config.frameworks();
  if (*capacity) {
    if (!diagnosis.ledger) diagnosis.ledger.emplace();
    diagnosis.ledger->capacity = *capacity;
  }
  Result<signatures::Forecast> foretold = signatures::forecast_of(diagnosis, config);
  if (!foretold.ok()) return std::move(foretold).error();
  const auto forecast = std::make_shared<const signatures::Forecast>(std::move(*foretold));
  if (diagnosis.kind.empty()) diagnosis.phase = phase_of(forecast->estimate().highest().peak_phase);
  diagnosis.kind = "gpu.oom.capacity";

  MemoryPlan made{forecast->config(), {}, *capacity, forecast, {}, {}, {}};
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
