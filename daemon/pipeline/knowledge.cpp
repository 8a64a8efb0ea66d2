#include "daemon/pipeline/knowledge.hpp"

#include <utility>

#include "parsers/config/config_reader.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/records/traceback.hpp"

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

}  // namespace

std::string program_version() { return TRIAGE_VERSION; }

LoadedKnowledge load_knowledge(std::span<const signatures::RuleFile> user_rules) {
  LoadedKnowledge out;
  std::vector<signatures::RuleFile> shipped;
  for (const parsers::EmbeddedFile& file : signatures::embedded_rules()) shipped.push_back({std::string(file.path), file.text});
  signatures::ReadRules rules = signatures::read_rules(shipped);
  append(out.faults, std::move(rules.faults));
  if (!user_rules.empty()) {
    rules = signatures::override_rules(std::move(rules.rules), user_rules);
    append(out.faults, std::move(rules.faults));
  }
  signatures::ReadCatalogue catalogue = signatures::read_catalogue(signatures::embedded_fixes());
  append(out.faults, std::move(catalogue.faults));

  // The readers stay alive until compile() has copied their literals.
  const auto event_readers = parsers::make_event_readers();
  const auto config_readers = parsers::make_config_readers();
  WakeTable table;
  table.add(parsers::TracebackAssembler::triggers(), {Wake::Who::traceback, 0});
  for (std::size_t i = 0; i < event_readers.size(); ++i) table.add(event_readers[i]->triggers(), {Wake::Who::event_reader, i});
  for (std::size_t i = 0; i < config_readers.size(); ++i) table.add(config_readers[i]->triggers(), {Wake::Who::config_reader, i});
  table.add(parsers::progress_literals(), {Wake::Who::progress, 0});
  table.add(parsers::memory_report_literals(), {Wake::Who::memory_report, 0});

  auto set = signatures::SignatureSet::compile(std::move(rules.rules), table.literals, out.faults);
  if (!set || !out.faults.empty()) return out;
  out.knowledge = std::make_shared<Knowledge>(Knowledge{std::move(set), std::move(catalogue.fixes), std::move(table.wakes)});
  return out;
}

}  // namespace triage::daemon
