// Many files, many cores: every source through its own Intake, blocks of one source scanned by all threads at once.
#pragma once

#include <cstdint>
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
  std::function<void(std::uint64_t bytes)> progress; // called now and then, by one thread at a time, with the bytes read so far (of packed
                                                     // files: packed bytes); may be empty
  std::function<bool()> stop;                        // true: what was read up to now is all there is; may be empty
};

struct ScannedFiles {
  std::vector<signatures::SourceFindings> sources;   // in the order of `files`; members of an archive in its order
  std::vector<parsers::Error> errors;                // files that could not be opened, or not read to their end; in the order of `files`
  std::size_t unread = 0;                            // files that were not begun, or not read to their end, because of `stop`
};

// A file that breaks off is judged up to there. A binary file is an error of its own, and is not scanned. Dumps are told by their first bytes,
// from a pipe too.
ScannedFiles scan_files(std::shared_ptr<const Knowledge> knowledge, const std::vector<std::string>& files, const ScanFilesOptions& options);

}  // namespace triage::daemon
