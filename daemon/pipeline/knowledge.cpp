#include "daemon/pipeline/knowledge.hpp"

#include <set>
#include <utility>

#include "parsers/base/error_text.hpp"
#include "parsers/config/config_reader.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/records/traceback.hpp"
#include "signatures/match/rule_examples.hpp"
#include "signatures/match/rule_lint.hpp"
#include "signatures/plan/rule_fixes.hpp"

namespace triage::daemon {

namespace {

struct WakeTable {
  std::vector<std::string_view> literals;
  std::vector<Wake> wakes;
  void add(std::span<const std::string_view> from, Wake wake) {
    for (const std::string_view literal : from) {
      literals.push_back(literal);
      wakes.push_back(wake);
    }
  }
};

void append(std::vector<parsers::Error>& to, std::vector<parsers::Error>&& from) {
  for (parsers::Error& error : from) to.push_back(std::move(error));
}

// What lint, the fix catalogue and the examples say of the rules in the user's files. The shipped ones are checked by our tests.
void check_user_rules(const signatures::SignatureSet& set, bool complete, std::span<const signatures::RuleFile> user, LoadedKnowledge& out) {
  std::set<std::string_view> names;
  for (const signatures::RuleFile& file : user) names.insert(file.name);
  const auto keep = [&](std::vector<parsers::Error>&& from, std::vector<parsers::Error>& to) {
    for (parsers::Error& fault : from)
      if (!fault.place() || names.contains(fault.place()->file)) to.push_back(std::move(fault));
  };
  CheckedRules checked = check_rules(set, complete);
  keep(std::move(checked.faults), out.faults);
  keep(std::move(checked.notes), out.notes);
}

}  // namespace

std::string program_version() { return TRIAGE_VERSION; }

// A fault in the embedded catalogue is a mistake of ours, found by tests; the entries without faults are used.
const std::vector<signatures::CatalogueFix>& Knowledge::fixes() const {
  std::call_once(fixes_read_, [this] { fixes_ = signatures::read_catalogue(signatures::embedded_fixes()).fixes; });
  return fixes_;
}

CheckedRules check_rules(const signatures::SignatureSet& set, bool complete) {
  CheckedRules out;
  signatures::TrialBudget budget(set);
  append(out.faults, signatures::check_examples(set, budget));
  for (parsers::Error& fault : signatures::lint(set, budget, complete)) (signatures::is_grave(fault) ? out.faults : out.notes).push_back(std::move(fault));
  append(out.faults, signatures::unknown_fixes(set.signatures(), signatures::read_catalogue(signatures::embedded_fixes()).fixes));
  if (budget.used_up()) out.faults.push_back(budget.fault());
  return out;
}

LoadedKnowledge load_knowledge(std::span<const signatures::RuleFile> user_rules, bool checked, bool complete) {
  LoadedKnowledge out;
  std::vector<signatures::RuleFile> shipped;
  for (const parsers::EmbeddedFile& file : signatures::embedded_rules()) shipped.push_back({std::string(file.path), file.text});
  signatures::ReadRules rules = signatures::read_rules(shipped);
  append(out.faults, std::move(rules.faults));
  if (!user_rules.empty()) {
    rules = signatures::override_rules(std::move(rules.rules), user_rules);
    append(out.faults, std::move(rules.faults));
  }

  // The readers stay alive until compile() has copied their literals.
  const auto event_readers = parsers::make_event_readers();
  const auto config_readers = parsers::make_config_readers();
  WakeTable table;
  table.add(parsers::TracebackAssembler::triggers(), {Wake::Who::traceback, 0});
  for (std::size_t i = 0; i < event_readers.size(); ++i) table.add(event_readers[i]->triggers(), {Wake::Who::event_reader, i});
  for (std::size_t i = 0; i < config_readers.size(); ++i) table.add(config_readers[i]->triggers(), {Wake::Who::config_reader, i});
  table.add(parsers::memory_report_literals(), {Wake::Who::memory_report, 0});

  const auto set = signatures::SignatureSet::compile_rest(std::move(rules.rules), table.literals, out.faults);
  // All faults at once: where there is one already, the rest is looked for, too.
  if (!user_rules.empty() && (checked || !out.faults.empty())) check_user_rules(*set, complete && rules.complete, user_rules, out);
  parsers::sort_by_place(out.faults);
  parsers::sort_by_place(out.notes);
  if (!out.faults.empty()) return out;
  auto knowledge = std::make_shared<Knowledge>();
  knowledge->rules = set;
  knowledge->wakes = std::move(table.wakes);
  std::vector<signatures::Literal> progress;
  for (const std::string_view literal : parsers::progress_literals()) progress.push_back({std::string(literal), false});
  knowledge->progress = std::make_unique<signatures::LiteralScanner>(std::move(progress));
  out.knowledge = std::move(knowledge);
  return out;
}

}  // namespace triage::daemon
