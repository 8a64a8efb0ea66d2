#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "daemon/cli/command.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/error_text.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;

void complain(const Error& error) { std::fputs(parsers::error_text(error).c_str(), stderr); }
void complain(const std::vector<Error>& errors) {
  if (!errors.empty()) std::fputs(parsers::error_text(errors).c_str(), stderr);
}

int written_or_complain(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  if (errno == EPIPE) return status;   // the reader has what it wanted: `| head`
  complain(Error(ErrorCode::io, "the answer could not be written to standard output")
               .because(errno != 0 ? std::strerror(errno) : "")
               .help("free space on the disk, or write it elsewhere"));
  return kTrouble;
}

parsers::TimePoint now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

int this_year() {
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  return static_cast<int>(std::chrono::year_month_day(today).year());
}

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
    TRIAGE_TRY(auto source, open_plain(name));
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

std::shared_ptr<const Knowledge> knowledge_or_complain(const std::vector<std::string>& rule_paths, bool checked) {
  static const std::string kSiteRules = "/etc/triaged/rules.d";
  std::vector<std::string> paths = rule_paths;
  std::error_code ignored;
  if (paths.empty() && std::filesystem::is_directory(kSiteRules, ignored)) paths.push_back(kSiteRules);
  const auto texts = read_rule_files(paths);
  if (!texts.ok()) {
    complain(texts.error());
    return nullptr;
  }
  LoadedKnowledge loaded = load_knowledge(texts->files(), checked);
  complain(loaded.faults);
  complain(loaded.notes);
  return loaded.knowledge;
}

}  // namespace triage::daemon
