// triage plan: the memory of a configuration, and what each change would give.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "daemon/cli/command.hpp"
#include "daemon/cli/plan_view.hpp"
#include "daemon/cli/scan_files.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/limits.hpp"
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

Result<std::string> read_text(const std::string& path) {
  auto source = open_plain(path);
  if (!source.ok()) return std::move(source).error();
  std::string text;
  std::vector<char> room(64 * 1024);
  for (;;) {
    const Result<std::size_t> got = (*source)->read(room);
    if (!got.ok()) return got.error();
    if (*got == 0) return text;
    text.append(room.data(), *got);
    if (text.size() > parsers::limits::kConfigBytes)
      return Error(ErrorCode::limit, path + " is larger than any configuration").because("it was read up to " + std::to_string(text.size()) + " bytes");
  }
}

// Everything that the command names, into one configuration, with the memory reports of the logs.
struct Input {
  RunConfig config;
  signatures::Diagnosis diagnosis;       // of the logs' out-of-memory failure where there is one; else only a kind
};

Status read_logs(const PlanCommand& command, const Knowledge& knowledge, std::shared_ptr<const Knowledge> shared, Input& input) {
  ScannedFiles scanned = scan_files(std::move(shared), command.logs, ScanFilesOptions{1, this_year(), {}});
  if (!scanned.errors.empty()) return std::move(scanned.errors.front());
  std::vector<parsers::MemoryReport> reports;
  for (const signatures::SourceFindings& source : scanned.sources) {
    parsers::merge(input.config, source.config);
    for (const parsers::MemoryReport& report : source.memory)
      if (reports.size() < 64) reports.push_back(report);
  }
  Answer answer = judge_sources(knowledge, std::move(scanned.sources), now());
  for (JudgedIncident& incident : answer.incidents)
    if (incident.diagnosis.kind.starts_with("gpu.oom") && input.diagnosis.kind.empty()) input.diagnosis = std::move(incident.diagnosis);
  if (input.diagnosis.memory.empty()) input.diagnosis.memory = std::move(reports);
  return parsers::done();
}

Status read_files(const PlanCommand& command, RunConfig& config) {
  if (!command.megatron_arguments.empty()) {
    Result<std::string> text = read_text(command.megatron_arguments);
    if (!text.ok()) return std::move(text).error();
    // A command over several lines is one command.
    std::replace(text->begin(), text->end(), '\n', ' ');
    std::string joined;
    for (const char c : *text)
      if (c != '\\') joined += c;
    parsers::merge(config, parsers::read_megatron_arguments(parsers::command_words(joined)));
  }
  if (!command.model.empty()) {
    Result<std::string> text = read_text(command.model);
    if (!text.ok()) return std::move(text).error();
    Result<RunConfig> read = parsers::read_model_config(*text, command.model);
    if (!read.ok()) return std::move(read).error();
    parsers::merge(config, *read);
  }
  for (const std::string& file : command.configs) {
    Result<std::string> text = read_text(file);
    if (!text.ok()) return std::move(text).error();
    Result<RunConfig> read = parsers::read_config_file(*text, file);
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

Status put_settings(const PlanCommand& command, RunConfig& config) {
  for (const auto& [name, value] : command.settings) {
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

Result<std::optional<parsers::Bytes>> capacity_of(const PlanCommand& command, const RunConfig& config) {
  if (!command.capacity.empty()) {
    const auto bytes = parsers::read_bytes(command.capacity);
    if (!bytes || bytes->count() <= 0) return Error(ErrorCode::syntax, "--capacity is '" + command.capacity + "', not a size").help("for example 80GiB");
    return std::optional<parsers::Bytes>(*bytes);
  }
  if (!command.gpu.empty()) {
    const auto bytes = signatures::card_capacity(command.gpu);
    if (!bytes) return Error(ErrorCode::not_found, "the card '" + command.gpu + "' is not known").help("known: " + signatures::card_names() + "; or give --capacity 80GiB");
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

Result<MemoryPlan> make_plan(const PlanCommand& command) {
  std::shared_ptr<const Knowledge> knowledge = knowledge_or_complain({});
  if (!knowledge) return Error(ErrorCode::internal, "the rules could not be loaded");
  Input input;
  if (!command.logs.empty())
    if (Status status = read_logs(command, *knowledge, knowledge, input); !status.ok()) return std::move(status).error();
  if (Status status = read_files(command, input.config); !status.ok()) return std::move(status).error();
  parsers::derive(input.config);
  if (Status status = put_settings(command, input.config); !status.ok()) return std::move(status).error();
  if (input.config.empty())
    return Error(ErrorCode::not_found, "there is no configuration to plan").help("give --log, --megatron-args, --model or --config");

  Result<std::optional<parsers::Bytes>> capacity = capacity_of(command, input.config);
  if (!capacity.ok()) return std::move(capacity).error();
  signatures::Diagnosis& diagnosis = input.diagnosis;
  diagnosis.config = input.config;
  diagnosis.frameworks = input.config.frameworks();
  if (*capacity) {
    if (!diagnosis.ledger) diagnosis.ledger.emplace();
    diagnosis.ledger->capacity = *capacity;
  }
  Result<signatures::Forecast> foretold = signatures::forecast_of(diagnosis, input.config);
  if (!foretold.ok()) return std::move(foretold).error();
  const auto forecast = std::make_shared<const signatures::Forecast>(std::move(*foretold));
  if (diagnosis.kind.empty()) diagnosis.phase = phase_of(forecast->estimate().highest().peak_phase);
  diagnosis.kind = "gpu.oom.capacity";

  MemoryPlan made{forecast->config(), {}, *capacity, forecast, {}, {}, {}};
  made.plan = signatures::plan_fixes(diagnosis, knowledge->fixes(), kFixes, forecast);
  std::erase_if(made.plan.fixes, [](const signatures::Fix& fix) { return !fix.saving; });
  for (std::size_t i = 0; i < made.plan.fixes.size(); ++i) made.plan.fixes[i].rank = static_cast<int>(i) + 1;
  if (made.forecast->now().fits) made.plan.verdict.clear();
  if (command.sweep) made.sweep = signatures::sweep_layouts(*made.forecast, made.config);
  if (command.rank) {
    const auto stages = static_cast<long>(made.forecast->estimate().stages.size());
    const long world = static_cast<long>(made.forecast->estimate().layout.world);
    if (*command.rank < 0 || *command.rank >= std::max(world, 1L))
      return Error(ErrorCode::conflict, "--rank is " + std::to_string(*command.rank) + ", but the job has " + std::to_string(world) + " ranks");
    // Megatron's order of ranks: tensor, context, expert, data, pipeline; the pipeline rank changes slowest.
    made.pipeline_rank = *command.rank / std::max(1L, world / std::max(1L, stages));
  }
  return made;
}

}  // namespace

int plan_command(const PlanCommand& command) {
  Result<MemoryPlan> plan = make_plan(command);
  if (!plan.ok()) {
    complain(plan.error());
    return kTrouble;
  }
  const std::string text = command.format == Format::json ? json_text(plan_json(*plan), 2) + "\n" : plan_text(*plan, terminal_style(false));
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return kNothingFound;
}

}  // namespace triage::daemon
