// The user's files of rules.
#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/knowledge.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon {

// Files of rules that the paths name (a folder gives its *.yaml), read whole. Errors as for input files.
struct RuleTexts {
  std::vector<std::string> names, texts;
  std::vector<signatures::RuleFile> files() const;
};
parsers::Result<RuleTexts> read_rule_files(const std::vector<std::string>& paths);

// The paths, or the site's folder where there is one and none is given.
std::vector<std::string> rule_paths_or_site(std::vector<std::string> paths);

}  // namespace triage::daemon
