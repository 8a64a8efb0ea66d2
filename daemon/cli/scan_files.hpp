// Many files, many cores: every source through its own Intake, blocks of one source scanned by all threads at once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/pipeline/knowledge.hpp"
#include "parsers/base/result.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon {

struct ScanFilesOptions {
  unsigned threads = 1;
  int default_year = 1970;                           // for clocks that print none
  std::function<void(std::uint64_t bytes)> progress; // called now and then by any thread with the bytes read so far; may be empty
};

struct ScannedFiles {
  std::vector<signatures::SourceFindings> sources;   // in the order of `files`; members of an archive in its order
  std::vector<parsers::Error> errors;                // files that could not be opened, or not read to their end
};

// A file that breaks off is judged up to there. A binary file is an error of its own, and is not scanned. Dumps are told by their first bytes,
// from a pipe too.
ScannedFiles scan_files(std::shared_ptr<const Knowledge> knowledge, const std::vector<std::string>& files, const ScanFilesOptions& options);

}  // namespace triage::daemon
