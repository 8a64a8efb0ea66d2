// triage plan: the memory of a configuration, and what each change would give.
#include <cstdio>
#include <utility>

#include "daemon/cli/command.hpp"
#include "daemon/cli/plan_view.hpp"
#include "daemon/cli/scan_files.hpp"
#include "daemon/http/plan_json.hpp"
#include "daemon/pipeline/memory_plan.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

Result<std::string> read_text(const std::string& path) {
  auto source = open_input(path);
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

Result<MemoryPlan> make_plan(const PlanCommand& command) {
  // Rules read logs; without one the fix catalogue alone is needed.
  std::shared_ptr<const Knowledge> knowledge = command.logs.empty() ? std::make_shared<const Knowledge>() : knowledge_or_complain({});
  if (!knowledge) return Error(ErrorCode::internal, "the rules could not be loaded");
  PlanInput input;
  if (!command.logs.empty()) {
    ScannedFiles scanned = scan_files(knowledge, command.logs, ScanFilesOptions{1, this_year(), {}, {}});
    if (!scanned.errors.empty()) return std::move(scanned.errors.front());
    input.logs = std::move(scanned.sources);
  }
  if (!command.megatron_arguments.empty()) {
    TRIAGE_TRY(input.megatron_arguments, read_text(command.megatron_arguments));
  }
  if (!command.model.empty()) {
    TRIAGE_TRY(std::string text, read_text(command.model));
    input.model = NamedText{command.model, std::move(text)};
  }
  for (const std::string& file : command.configs) {
    TRIAGE_TRY(std::string text, read_text(file));
    input.configs.push_back({file, std::move(text)});
  }
  input.settings = command.settings;
  input.gpu = command.gpu;
  input.capacity = command.capacity;
  input.rank = command.rank;
  input.sweep = command.sweep;
  const bool nothing_given = command.logs.empty() && command.megatron_arguments.empty() && command.model.empty() && command.configs.empty() && command.settings.empty();
  auto plan = make_memory_plan(*knowledge, std::move(input), wall_clock());
  if (!plan.ok() && plan.error().code() == ErrorCode::not_found && plan.error().help_text().empty())
    return std::move(plan).error().help(nothing_given ? "give --log, --megatron-args, --model or --config" : "give it with --set KEY=VALUE, under the name that the message uses");
  return plan;
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
