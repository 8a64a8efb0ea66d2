// The user's files of rules.
#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/knowledge.hpp"

namespace triage::daemon {

struct RuleFilesOptions {
  bool checked = true;   // as for load_knowledge
  bool pipes = true;     // a pipe can be read once: no good for a service, which reads its rules again
};

// The embedded rules with those over them that the paths name (a folder gives its *.yaml). Rules are used all or none: the faults are those
// of all files that cannot be read, and of all that is in the others.
LoadedKnowledge load_rule_files(const std::vector<std::string>& paths, RuleFilesOptions options = {});

// The paths, or the site's folder where there is one and none is given.
std::vector<std::string> rule_paths_or_site(std::vector<std::string> paths);

}  // namespace triage::daemon
