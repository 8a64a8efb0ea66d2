#include "daemon/tail/source_config.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/nearest.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::YamlNode;
using std::chrono::milliseconds;

namespace {

class Section {
 public:
  Section(const YamlNode& node, std::string name, std::vector<Error>& faults) : node_(node), name_(std::move(name)), faults_(faults) {
    if (node.kind != YamlNode::Kind::map && node.kind != YamlNode::Kind::null)
      fault(node, "'" + name_ + "' has to be a map of keys, it is " + std::string(parsers::kind_name(node.kind)));
  }

  const YamlNode* find(std::string_view key) {
    known_.emplace_back(key);
    return node_.kind == YamlNode::Kind::map ? node_.find(key) : nullptr;
  }
  void fault(const YamlNode& at, std::string message, std::string help = {}) {
    faults_.push_back(Error(ErrorCode::syntax, std::move(message)).at(at.place).help(std::move(help)));
  }
  std::vector<const YamlNode*> items(std::string_view key) {
    std::vector<const YamlNode*> out;
    const YamlNode* const node = find(key);
    if (!node) return out;
    if (node->kind == YamlNode::Kind::list)
      for (const YamlNode& item : node->items) out.push_back(&item);
    else
      out.push_back(node);
    return out;
  }
  std::optional<std::string> text(const YamlNode& node, std::string_view key) {
    if (node.kind == YamlNode::Kind::scalar && !node.scalar.empty()) return node.scalar;
    fault(node, "'" + std::string(key) + "' has to be text");
    return std::nullopt;
  }
  void flag(std::string_view key, bool& out) {
    const YamlNode* const node = find(key);
    if (!node) return;
    if (node->kind == YamlNode::Kind::scalar && !node->quoted && (node->scalar == "true" || node->scalar == "false"))
      out = node->scalar == "true";
    else
      fault(*node, "'" + std::string(key) + "' has to be true or false");
  }
  void count(std::string_view key, std::int64_t& out, std::int64_t least, std::int64_t most) {
    const YamlNode* const node = find(key);
    if (!node) return;
    const auto value = node->kind == YamlNode::Kind::scalar && !node->quoted ? parsers::read_integer(node->scalar) : std::nullopt;
    if (value && *value >= least && *value <= most)
      out = *value;
    else
      fault(*node, "'" + std::string(key) + "' has to be a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  void duration(std::string_view key, milliseconds& out, milliseconds least, milliseconds most) {
    const YamlNode* const node = find(key);
    if (!node) return;
    std::string_view rest = node->kind == YamlNode::Kind::scalar ? std::string_view(node->scalar) : std::string_view();
    const auto number = parsers::take_integer(rest);
    constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
    const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& entry) { return entry.first == rest; });
    if (number && unit != std::end(kUnits) && *number <= 1'000'000'000 && milliseconds(*number * unit->second) >= least && milliseconds(*number * unit->second) <= most)
      out = milliseconds(*number * unit->second);
    else
      fault(*node, "'" + std::string(key) + "' is no span of time from " + std::to_string(least.count()) + "ms to " + std::to_string(most.count()) + "ms", "write 500ms, 30s, 5m, 4h or 7d");
  }
  // Tells the unknown keys. Call last.
  void done() {
    if (node_.kind != YamlNode::Kind::map) return;
    for (const auto& [key, value] : node_.entries) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      faults_.push_back(Error(ErrorCode::syntax, "unknown key '" + key + "' in '" + name_ + "'").at(value.key_place).help(parsers::nearest_name(key, known_)));
    }
  }

 private:
  const YamlNode& node_;
  std::string name_;
  std::vector<Error>& faults_;
  std::vector<std::string> known_;
};

void add(Section& section, const YamlNode& at, const std::string& text, FoundFile::Kind kind, const std::string& job, const std::vector<JobTemplate>& except, SourceConfig& out) {
  Result<JobTemplate> form = JobTemplate::parse(text);
  if (!form.ok())
    section.fault(at, form.error().message(), form.error().help_text());
  else
    out.patterns.push_back({*std::move(form), kind, job, except});
}

std::string folder_of(std::string text) {
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

void read_patterns(Section& section, std::string_view key, FoundFile::Kind kind, SourceConfig& out, std::vector<Error>& faults) {
  for (const YamlNode* const item : section.items(key)) {
    if (item->kind != YamlNode::Kind::map) {
      if (const auto path = section.text(*item, key)) add(section, *item, *path, kind, "", {}, out);
      continue;
    }
    Section entry(*item, std::string(key), faults);
    std::string job;
    if (const YamlNode* const node = entry.find("job"))
      if (const auto value = entry.text(*node, "job")) job = *value;
    std::vector<JobTemplate> except;
    for (const YamlNode* const node : entry.items("except"))
      if (const auto text = entry.text(*node, "except")) {
        Result<JobTemplate> form = JobTemplate::parse(*text);
        if (form.ok())
          except.push_back(*std::move(form));
        else
          entry.fault(*node, form.error().message(), form.error().help_text());
      }
    const auto paths = entry.items("path");
    if (paths.empty()) entry.fault(*item, "an entry of '" + std::string(key) + "' has no path", "add 'path: /logs/{job}/rank{rank}.log'");
    for (const YamlNode* const node : paths)
      if (const auto path = entry.text(*node, "path")) add(entry, *node, *path, kind, job, except, out);
    entry.done();
  }
}

}  // namespace

SourceConfig read_source_config(const YamlNode& node, std::vector<Error>& faults) {
  SourceConfig out;
  Section section(node, "sources", faults);
  read_patterns(section, "files", FoundFile::Kind::log, out, faults);
  // torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs: <log dir>/<run id>_<8 characters of mkdtemp>/attempt_<n>/<local rank>/.
  for (const YamlNode* const item : section.items("torchrun"))
    if (const auto folder = section.text(*item, "torchrun")) {
      const std::string front = folder_of(*folder) + "/{job}_????????" "/attempt_{attempt}/{local_rank}/";
      add(section, *item, front + "{stream}.log", FoundFile::Kind::log, "", {}, out);
      add(section, *item, front + "error.json", FoundFile::Kind::dump, "", {}, out);
    }
  // kubernetes pkg/kubelet/kuberuntime/helpers.go: <namespace>_<pod>_<uid>/<container>/<restarts>.log.
  if (const YamlNode* const pods = section.find("pods")) {
    const auto value = section.text(*pods, "pods");
    const std::string folder = value == "true" ? "/var/log/pods" : value.value_or("false");
    if (folder != "false") add(section, *pods, folder_of(folder) + "/{namespace}_{pod}_{uid}/{container}/{attempt}.log", FoundFile::Kind::log, "", {}, out);
  }
  read_patterns(section, "dumps", FoundFile::Kind::dump, out, faults);
  section.flag("kernel_log", out.kernel_log);
  if (const YamlNode* const journal = section.find("journal")) {
    out.journal.on = true;
    if (journal->kind == YamlNode::Kind::map) {
      Section inner(*journal, "journal", faults);
      inner.flag("kernel", out.journal.kernel);
      for (const YamlNode* const item : inner.items("units"))
        if (const auto unit = inner.text(*item, "units")) out.journal.units.push_back(*unit);
      inner.done();
    } else if (journal->kind == YamlNode::Kind::scalar && (journal->scalar == "true" || journal->scalar == "false")) {
      out.journal.on = journal->scalar == "true";
    } else {
      section.fault(*journal, "'journal' has to be true, false or a map of 'kernel' and 'units'");
    }
  }
  for (const YamlNode* const item : section.items("links_into"))
    if (const auto folder = section.text(*item, "links_into")) {
      if (folder->starts_with('/'))
        out.links_into.push_back(folder_of(*folder));
      else
        section.fault(*item, "'" + *folder + "' is no absolute path", "begin it with '/'");
    }
  section.flag("packed", out.packed);
  section.flag("poll_only", out.poll_only);
  section.duration("poll", out.poll, milliseconds(50), milliseconds(600'000));
  section.duration("flush", out.flush, milliseconds(50), milliseconds(600'000));
  section.duration("ignore_older", out.ignore_older, milliseconds(0), milliseconds(10LL * 365 * 86'400'000));
  section.count("max_files", out.files, 1, 1'000'000);
  section.count("max_descriptors", out.descriptors, 4, 100'000);
  section.done();
  return out;
}

}  // namespace triage::daemon
