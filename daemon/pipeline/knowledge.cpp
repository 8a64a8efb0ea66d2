#include "daemon/pipeline/knowledge.hpp"

#include <algorithm>
#include <utility>

#include "parsers/config/config_reader.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/records/traceback.hpp"
#include "signatures/match/rule_examples.hpp"
#include "signatures/match/rule_lint.hpp"

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

// What lint and the examples say of the rules in the user's files. The shipped ones are checked by our tests.
void check_user_rules(std::span<const signatures::Signature> rules, const signatures::SignatureSet* set,
                      std::span<const signatures::RuleFile> user, LoadedKnowledge& out) {
  const auto of_user = [&](const parsers::Error& fault) {
    return fault.place() && std::any_of(user.begin(), user.end(), [&](const auto& file) { return file.name == fault.place()->file; });
  };
  for (parsers::Error& fault : signatures::lint(rules))
    if (of_user(fault)) (signatures::is_grave(fault) ? out.faults : out.notes).push_back(std::move(fault));
  if (set == nullptr) return;
  for (parsers::Error& fault : signatures::check_examples(*set))
    if (of_user(fault)) out.faults.push_back(std::move(fault));
}

}  // namespace

std::string program_version() { return TRIAGE_VERSION; }

// A fault in the embedded catalogue is a mistake of ours, found by tests; the entries without faults are used.
const std::vector<signatures::CatalogueFix>& Knowledge::fixes() const {
  std::call_once(fixes_read_, [this] { fixes_ = signatures::read_catalogue(signatures::embedded_fixes()).fixes; });
  return fixes_;
}

LoadedKnowledge load_knowledge(std::span<const signatures::RuleFile> user_rules, bool checked) {
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

  std::vector<signatures::Signature> to_check;
  if (!user_rules.empty()) to_check = rules.rules;
  auto set = signatures::SignatureSet::compile(std::move(rules.rules), table.literals, out.faults);
  if (!user_rules.empty() && set && checked) check_user_rules(to_check, set.get(), user_rules, out);
  if (!user_rules.empty() && !set) {
    // All faults at once: the rules that are whole are tried on their examples all the same.
    std::vector<signatures::Signature> whole = to_check;
    std::erase_if(whole, [&](const signatures::Signature& rule) {
      return std::any_of(out.faults.begin(), out.faults.end(), [&](const parsers::Error& fault) {
        return fault.place() && fault.place()->file == rule.place.file && fault.place()->line == rule.place.line;
      });
    });
    std::vector<parsers::Error> told;
    check_user_rules(to_check, signatures::SignatureSet::compile(std::move(whole), table.literals, told).get(), user_rules, out);
  }
  if (!set || !out.faults.empty()) return out;
  auto knowledge = std::make_shared<Knowledge>();
  knowledge->rules = std::move(set);
  knowledge->wakes = std::move(table.wakes);
  std::vector<signatures::Literal> progress;
  for (const std::string_view literal : parsers::progress_literals()) progress.push_back({std::string(literal), false});
  knowledge->progress = std::make_unique<signatures::LiteralScanner>(std::move(progress));
  out.knowledge = std::move(knowledge);
  return out;
}

}  // namespace triage::daemon
