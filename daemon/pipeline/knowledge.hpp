// Knowledge: the rules, the fix catalogue and the literals that wake the readers, compiled once and shared by all threads.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/match/literal_scanner.hpp"
#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_reader.hpp"
#include "signatures/plan/catalogue.hpp"

namespace triage::daemon {

// What a literal that no rule owns wakes up in Intake.
struct Wake {
  enum class Who : std::uint8_t { traceback, event_reader, config_reader, memory_report };
  Who who = Who::traceback;
  std::size_t reader = 0;                // index among make_event_readers() or make_config_readers()
};

struct Knowledge {
  std::shared_ptr<const signatures::SignatureSet> rules;
  std::vector<Wake> wakes;               // by index of the extra literal
  std::unique_ptr<const signatures::LiteralScanner> progress;   // over parsers::progress_literals()

  // Read at the first call: a healthy log has no need of it. Thread-safe.
  const std::vector<signatures::CatalogueFix>& fixes() const;

 private:
  mutable std::once_flag fixes_read_;
  mutable std::vector<signatures::CatalogueFix> fixes_;
};

struct LoadedKnowledge {
  std::shared_ptr<const Knowledge> knowledge;   // null when there is a fault
  std::vector<parsers::Error> faults;
  std::vector<parsers::Error> notes;            // of the user's rules: what `rules check` complains of and a scan can do without
};

// The embedded rules, with the user's rules over them. The user's are linted and their examples run, unless they are loaded to be worked
// on (`checked` false). All faults at once, in order of place; where there is one, the user's are checked whatever `checked` says.
// `complete` false: there are more files, which could not be read.
LoadedKnowledge load_knowledge(std::span<const signatures::RuleFile> user_rules, bool checked = true, bool complete = true);

// What lint, the fix catalogue and the examples say of all rules of a set; `complete` as for lint.
struct CheckedRules {
  std::vector<parsers::Error> faults, notes;    // as those of LoadedKnowledge
};
CheckedRules check_rules(const signatures::SignatureSet& set, bool complete = true);

// Version of this program: "0.1.0".
std::string program_version();

}  // namespace triage::daemon
