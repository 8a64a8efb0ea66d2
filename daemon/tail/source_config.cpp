#include "daemon/tail/source_config.hpp"

#include <string_view>
#include <utility>

#include "daemon/config/fields.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::Result;
using parsers::YamlNode;
using std::chrono::milliseconds;

namespace {

void add(Fields& section, const YamlNode& at, const std::string& text, FoundFile::Kind kind, const std::string& job, const std::vector<JobTemplate>& except, SourceConfig& out) {
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

void read_patterns(Fields& section, std::string_view key, FoundFile::Kind kind, SourceConfig& out, std::vector<Error>& faults) {
  for (const YamlNode* const item : section.items(key)) {
    if (item->kind != YamlNode::Kind::map) {
      if (const auto path = section.item_text(*item, key)) add(section, *item, *path, kind, "", {}, out);
      continue;
    }
    Fields entry(*item, "an entry of " + std::string(key), faults);
    std::string job;
    entry.name("job", job);
    std::vector<JobTemplate> except;
    for (const YamlNode* const node : entry.items("except"))
      if (const auto text = entry.item_text(*node, "except")) {
        Result<JobTemplate> form = JobTemplate::parse(*text);
        if (form.ok())
          except.push_back(*std::move(form));
        else
          entry.fault(*node, form.error().message(), form.error().help_text());
      }
    const auto paths = entry.items("path");
    if (paths.empty()) entry.fault(*item, "an entry of '" + std::string(key) + "' has no path", "add 'path: /logs/{job}/rank{rank}.log'");
    for (const YamlNode* const node : paths)
      if (const auto path = entry.item_text(*node, "path")) add(entry, *node, *path, kind, job, except, out);
  }
}

}  // namespace

SourceConfig read_source_config(const YamlNode& node, std::vector<Error>& faults) {
  SourceConfig out;
  Fields section(node, "sources", faults);
  read_patterns(section, "files", FoundFile::Kind::log, out, faults);
  // torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs: <log dir>/<run id>_<8 characters of mkdtemp>/attempt_<n>/<local rank>/.
  for (const YamlNode* const item : section.items("torchrun"))
    if (const auto folder = section.item_text(*item, "torchrun")) {
      const std::string front = folder_of(*folder) + "/{job}_????????" "/attempt_{attempt}/{local_rank}/";
      add(section, *item, front + "{stream}.log", FoundFile::Kind::log, "", {}, out);
      add(section, *item, front + "error.json", FoundFile::Kind::dump, "", {}, out);
    }
  // kubernetes pkg/kubelet/kuberuntime/helpers.go: <namespace>_<pod>_<uid>/<container>/<restarts>.log.
  if (const YamlNode* const pods = section.find("pods")) {
    const auto value = section.item_text(*pods, "pods");
    const std::string folder = value == "true" ? "/var/log/pods" : value.value_or("false");
    if (folder != "false") add(section, *pods, folder_of(folder) + "/{namespace}_{pod}_{uid}/{container}/{attempt}.log", FoundFile::Kind::log, "", {}, out);
  }
  read_patterns(section, "dumps", FoundFile::Kind::dump, out, faults);
  section.flag("kernel_log", out.kernel_log);
  if (const YamlNode* const journal = section.find("journal")) {
    out.journal.on = true;
    if (journal->kind == YamlNode::Kind::map) {
      Fields inner(*journal, "sources.journal", faults);
      inner.flag("kernel", out.journal.kernel);
      inner.texts("units", out.journal.units);
    } else if (journal->kind == YamlNode::Kind::scalar && (journal->scalar == "true" || journal->scalar == "false")) {
      out.journal.on = journal->scalar == "true";
    } else {
      section.fault(*journal, "journal has to be true, false or a map of kernel and units");
    }
    if (out.kernel_log) out.journal.kernel = false;   // told once
    if (out.journal.on && !out.journal.kernel && out.journal.units.empty())
      section.fault(*journal, "journal is asked for nothing", out.kernel_log ? "kernel_log reads the kernel's lines already: leave journal out, or name units: [slurmd.service]" : "name units: [slurmd.service], or kernel: true");
  }
  for (const YamlNode* const item : section.items("links_into"))
    if (const auto folder = section.item_text(*item, "links_into")) {
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
  return out;
}

}  // namespace triage::daemon
