// The section `sources:` of the configuration: what is watched.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/tail/discovery.hpp"
#include "parsers/base/result.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::daemon {

struct JournalConfig {
  bool on = false;
  bool kernel = true;                    // lines of the kernel
  std::vector<std::string> units;        // and of these units: slurmd.service
  bool operator==(const JournalConfig&) const = default;
};

struct SourceConfig {
  std::vector<SourcePattern> patterns;
  std::vector<std::string> links_into;
  bool packed = false;
  bool kernel_log = false;               // /dev/kmsg
  JournalConfig journal;
  std::int64_t files = 100'000;          // known at the same time; those that do not grow for ignore_older cost some hundred bytes
  std::int64_t descriptors = 2048;       // open at the same time, as far as the process may
  std::chrono::milliseconds poll{1000};  // of folders and files on network file systems
  bool poll_only = false;                // no inotify at all
  std::chrono::milliseconds flush{2000}; // a line without an end is judged after this
  std::chrono::milliseconds ignore_older{std::chrono::hours(24)};   // files that are met for the first time and were last changed before that are taken from their end
};

// All faults at once, each with its place. A node of kind null is an empty section.
//   files:    list of patterns, or of maps {path, job, except}
//   torchrun: folders given to torchrun --log-dir        pods: true or the folder (/var/log/pods)
//   dumps:    patterns of snapshots, cores, flight recorder dumps
//   kernel_log: flag     journal: flag, or {kernel, units}; with kernel_log the journal's kernel lines are left out
//   links_into: folders  packed: flag  poll: duration  poll_only: flag  flush: duration  ignore_older: duration  max_files, max_descriptors: numbers
SourceConfig read_source_config(const parsers::YamlNode& node, std::vector<parsers::Error>& faults);

}  // namespace triage::daemon
