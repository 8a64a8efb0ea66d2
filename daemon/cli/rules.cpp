// rules check, test, list, explain, new, literals.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>
#include <thread>

#include "daemon/cli/command.hpp"
#include "daemon/cli/scan_files.hpp"
#include "daemon/cli/view.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/error_text.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/visible.hpp"
#include "signatures/match/explain.hpp"
#include "signatures/match/rule_reader.hpp"

namespace triage::daemon {

namespace {

using signatures::Signature;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "3 of them yours; of the shipped ones 1 replaced, 2 off"
std::string users_part(const Knowledge& knowledge) {
  std::set<std::string> shipped;
  for (const Signature& rule : signatures::read_rules(signatures::embedded_rule_files()).rules) shipped.insert(rule.id);
  std::size_t users = 0, replaced = 0;
  for (const Signature& rule : knowledge.rules->signatures()) {
    const bool user = !signatures::is_shipped(rule);
    users += user ? 1 : 0;
    replaced += user && shipped.contains(rule.id) ? 1 : 0;
  }
  const std::size_t off = shipped.size() + users - replaced - knowledge.rules->signatures().size();
  std::string out = std::to_string(users) + " of them yours";
  if (replaced + off > 0) out += "; of the shipped ones " + std::to_string(replaced) + " replaced, " + std::to_string(off) + " off";
  return out;
}

// `yours`: the user named rules.
int check(const Knowledge& knowledge, bool yours) {
  CheckedRules checked = check_rules(*knowledge.rules);
  std::vector<parsers::Error> faults = std::move(checked.faults);
  faults.insert(faults.end(), std::make_move_iterator(checked.notes.begin()), std::make_move_iterator(checked.notes.end()));
  parsers::sort_by_place(faults);
  complain(faults);
  if (!faults.empty()) return kTrouble;
  std::size_t examples = 0;
  for (const Signature& rule : knowledge.rules->signatures()) examples += rule.examples.size() + rule.counter_examples.size();
  print(counted(knowledge.rules->signatures().size(), "rule") + (yours ? ", " + users_part(knowledge) : "") + ", " + counted(examples, "example") + ": all hold\n");
  return kNothingFound;
}

int list(const Knowledge& knowledge, Format format) {
  if (format == Format::json) {
    Json rules = Json::array();
    for (const Signature& rule : knowledge.rules->signatures())
      rules.push_back({{"id", rule.id},
                       {"kind", rule.kind},
                       {"role", signatures::role_name(rule.role)},
                       {"version", rule.version},
                       {"within", signatures::within_name(rule.within)},
                       {"match", rule.match},
                       {"fixes", rule.fixes},
                       {"summary", rule.summary},
                       {"sources", rule.sources}});
    print(json_text(Json{{"hash", knowledge.rules->hash()}, {"engine", knowledge.rules->engine()}, {"rules", rules}}, 2) + "\n");
    return kNothingFound;
  }
  for (const Signature& rule : knowledge.rules->signatures()) {
    std::string row = rule.id;
    row.resize(std::max<std::size_t>(row.size(), 36), ' ');
    row += "  " + std::string(signatures::role_name(rule.role));
    row.resize(std::max<std::size_t>(row.size(), 52), ' ');
    print(parsers::visible(row + "  " + rule.kind) + "\n");
  }
  print(counted(knowledge.rules->signatures().size(), "rule") + ", hash " + knowledge.rules->hash() + ", " +
        std::string(knowledge.rules->engine()) + "\n");
  return kNothingFound;
}

// What the rules of the user's files newly fire on, in logs that are known.
int against(const RulesCommand& command, const std::shared_ptr<const Knowledge>& knowledge) {
  const auto shipped = load_knowledge({}).knowledge;
  if (!shipped) return kTrouble;
  const ExpandedPaths paths = expand_paths(command.against);
  complain(paths.errors);
  for (const std::string& file : paths.files)
    if (std::error_code ignored; file == "-" || std::filesystem::is_fifo(file, ignored)) {
      complain(parsers::Error(parsers::ErrorCode::unsupported, "a pipe cannot be read twice, with your rules and without").at({file, {}, {}, {}, {}}).help("write it to a file"));
      return kTrouble;
    }
  ScanFilesOptions options;
  options.threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  options.default_year = this_year();
  const ScannedFiles before = scan_files(shipped, paths.files, options);
  const ScannedFiles after = scan_files(knowledge, paths.files, options);
  complain(after.errors);
  std::set<std::tuple<std::string, std::uint64_t, std::string>> known;
  for (const auto& source : before.sources)
    for (const auto& finding : source.findings) known.insert({source.source.name, finding.line, finding.rule});
  std::size_t fresh = 0;
  for (const auto& source : after.sources)
    for (const auto& finding : source.findings) {
      if (known.count({source.source.name, finding.line, finding.rule}) > 0) continue;
      ++fresh;
      print(one_line(source.source.name, 300) + ":" + std::to_string(finding.line) + ": " + finding.rule + ": " + one_line(finding.text, 200) + "\n");
    }
  print(counted(fresh, "new finding") + " in " + counted(after.sources.size(), "file") + "\n");
  return paths.errors.empty() && after.errors.empty() ? kNothingFound : kTrouble;
}

}  // namespace

int rules_command(const RulesCommand& command) {
  using What = RulesCommand::What;
  if (command.what == What::make) {
    if (parsers::trim(command.line).empty()) {
      complain(parsers::Error(parsers::ErrorCode::syntax, "the line holds no message").help("give a whole line of the log, in quotes"));
      return kTrouble;
    }
    print(signatures::new_rule(command.line));
    return kNothingFound;
  }
  const auto knowledge = knowledge_or_complain(command.files, false);   // check() does it
  if (!knowledge) return kTrouble;
  switch (command.what) {
    case What::check: return check(*knowledge, !command.files.empty());
    case What::test: {
      const int status = check(*knowledge, !command.files.empty());
      return status != kNothingFound || command.against.empty() ? status : against(command, knowledge);
    }
    case What::list: return list(*knowledge, command.format);
    case What::explain: print(parsers::visible(signatures::explain(*knowledge->rules, command.line), true)); return kNothingFound;
    case What::literals:
      for (const std::string& literal : knowledge->rules->literals()) print(literal + "\n");
      return kNothingFound;
    case What::make: break;
  }
  return kNothingFound;
}

}  // namespace triage::daemon
