#include "daemon/tail/rule_files.hpp"

#include <algorithm>
#include <filesystem>

#include "daemon/tail/input.hpp"
#include "parsers/base/error_text.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;

namespace {

parsers::Result<std::string> read_whole(const std::string& name, bool pipes) {
  const Place place{name, {}, {}, {}, {}};
  std::error_code ignored;
  if (!pipes && (name == "-" || std::filesystem::is_fifo(name, ignored)))
    return Error(ErrorCode::unsupported, "a pipe holds no rules for a service: it can be read once only").at(place);
  TRIAGE_TRY(auto source, open_input(name));
  std::string text;
  for (std::vector<char> room(1 << 16);;) {
    TRIAGE_TRY(const std::size_t count, source->read(room));
    if (count == 0) return text;
    text.append(room.data(), count);
    if (text.size() > parsers::limits::kRuleFileBytes)
      return Error(ErrorCode::limit, "a rule file is larger than " + std::to_string(parsers::limits::kRuleFileBytes) + " bytes").at(place);
  }
}

}  // namespace

LoadedKnowledge load_rule_files(const std::vector<std::string>& paths, RuleFilesOptions options) {
  ExpandedPaths expanded = expand_paths(paths);
  std::vector<Error> unread = std::move(expanded.errors);
  std::vector<std::string> names, texts;
  for (const std::string& name : expanded.files) {
    const bool named = std::find(paths.begin(), paths.end(), name) != paths.end();
    const std::string ending = std::filesystem::path(name).extension().string();
    if (!named && ending != ".yaml" && ending != ".yml") continue;
    if (auto text = read_whole(name, options.pipes); text.ok()) {
      names.push_back(name);
      texts.push_back(std::move(text).value());
    } else {
      unread.push_back(std::move(text).error());
    }
  }
  std::vector<signatures::RuleFile> files;
  for (std::size_t i = 0; i < names.size(); ++i) files.push_back({names[i], texts[i]});
  LoadedKnowledge out = load_knowledge(files, options.checked || !unread.empty(), unread.empty());
  if (unread.empty()) return out;
  out.knowledge = nullptr;
  for (Error& error : unread) out.faults.push_back(std::move(error).help("rules are used all or none: name files, or folders with *.yaml, that can be read"));
  parsers::sort_by_place(out.faults);
  return out;
}

std::vector<std::string> rule_paths_or_site(std::vector<std::string> paths) {
  static const std::string kSiteRules = "/etc/triaged/rules.d";
  std::error_code ignored;
  if (paths.empty() && std::filesystem::is_directory(kSiteRules, ignored)) paths.push_back(kSiteRules);
  return paths;
}

}  // namespace triage::daemon
