// Scanning in tests: the same pipeline as the command line, over files or text, with a fixed clock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/cli/scan_files.hpp"
#include "daemon/pipeline/intake_stream.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/pipeline/triage.hpp"

namespace triage::tests {

inline std::shared_ptr<const daemon::Knowledge> knowledge() {
  static const daemon::LoadedKnowledge loaded = daemon::load_knowledge({});
  return loaded.knowledge;
}

inline parsers::TimePoint fixed_now() {
  return std::chrono::sys_days(std::chrono::year(2026) / 12 / 1);
}

inline daemon::Answer scan_paths(const std::vector<std::string>& files, unsigned threads = 2) {
  daemon::ScanFilesOptions options;
  options.threads = threads;
  options.default_year = 2026;
  return daemon::judge_sources(*knowledge(), daemon::scan_files(knowledge(), files, options).sources, fixed_now());
}

// The text in portions of `portion` bytes (0: all at once).
inline signatures::SourceFindings take_text(std::string_view text, std::size_t portion, const std::string& name = "train.log") {
  daemon::IntakeStream intake(knowledge(), daemon::source_info(name), 2026);
  if (portion == 0) portion = text.size();
  for (std::size_t at = 0; at < text.size(); at += portion) intake.feed(text.substr(at, portion));
  return intake.finish();
}

inline daemon::Answer scan_text(std::string_view text, std::size_t portion = 0, const std::string& name = "train.log") {
  std::vector<signatures::SourceFindings> sources;
  sources.push_back(take_text(text, portion, name));
  return daemon::judge_sources(*knowledge(), std::move(sources), fixed_now());
}

}  // namespace triage::tests
