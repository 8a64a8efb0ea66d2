#include "daemon/tail/rule_files.hpp"

#include <algorithm>
#include <filesystem>

#include "daemon/tail/input.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;

std::vector<signatures::RuleFile> RuleTexts::files() const {
  std::vector<signatures::RuleFile> out;
  for (std::size_t i = 0; i < names.size(); ++i) out.push_back({names[i], texts[i]});
  return out;
}

parsers::Result<RuleTexts> read_rule_files(const std::vector<std::string>& paths) {
  RuleTexts out;
  ExpandedPaths expanded = expand_paths(paths);
  if (!expanded.errors.empty()) return std::move(expanded.errors.front()).help("check the name and the permission: rules are used all or not at all");
  for (const std::string& name : expanded.files) {
    const bool named = std::find(paths.begin(), paths.end(), name) != paths.end();
    const std::string ending = std::filesystem::path(name).extension().string();
    if (!named && ending != ".yaml" && ending != ".yml") continue;
    TRIAGE_TRY(auto source, open_input(name));
    std::string text;
    for (std::vector<char> room(1 << 16);;) {
      TRIAGE_TRY(const std::size_t count, source->read(room));
      if (count == 0) break;
      text.append(room.data(), count);
      if (text.size() > parsers::limits::kRuleFileBytes)
        return Error(ErrorCode::limit, "a rule file is larger than " + std::to_string(parsers::limits::kRuleFileBytes) + " bytes")
            .at(Place{name, {}, {}, {}, {}})
            .help("split it by family");
    }
    out.names.push_back(name);
    out.texts.push_back(std::move(text));
  }
  return out;
}

std::vector<std::string> rule_paths_or_site(std::vector<std::string> paths) {
  static const std::string kSiteRules = "/etc/triaged/rules.d";
  std::error_code ignored;
  if (paths.empty() && std::filesystem::is_directory(kSiteRules, ignored)) paths.push_back(kSiteRules);
  return paths;
}

}  // namespace triage::daemon
