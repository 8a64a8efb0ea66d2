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

bool is_rule_file(const std::filesystem::path& name) { return name.extension() == ".yaml" || name.extension() == ".yml"; }

// The rule files of a folder that are no files to read: broken links, pipes, devices. Rules are used all or none, so they are told.
void tell_unreadable(const std::string& folder, std::vector<Error>& out) {
  std::error_code code;
  for (auto at = std::filesystem::recursive_directory_iterator(folder, code); !code && at != std::filesystem::recursive_directory_iterator(); at.increment(code)) {
    std::error_code status_code;
    const std::filesystem::file_status status = at->status(status_code);
    if (!is_rule_file(at->path()) || std::filesystem::is_directory(status)) continue;
    if (std::filesystem::is_regular_file(status)) continue;
    out.push_back(Error(ErrorCode::io, "a rule file cannot be read")
                      .at(Place{at->path().string(), {}, {}, {}, {}})
                      .because(status.type() == std::filesystem::file_type::not_found || status_code ? "a link that leads nowhere" : "a pipe or a device"));
  }
}

}  // namespace

LoadedKnowledge load_rule_files(const std::vector<std::string>& paths, RuleFilesOptions options) {
  ExpandedPaths expanded = expand_paths(paths);
  std::vector<Error> unread = std::move(expanded.errors);
  for (const std::string& path : paths)
    if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) tell_unreadable(path, unread);
  std::vector<std::string> names, texts;
  for (const std::string& name : expanded.files) {
    const bool named = std::find(paths.begin(), paths.end(), name) != paths.end();
    if (!named && !is_rule_file(name)) continue;
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
