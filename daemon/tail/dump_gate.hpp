// DumpGate: when a dump in a watched folder is complete. Writers of dumps do not tell: a core grows for minutes, a snapshot is pickled in
// portions. Complete = its size stood still for a while, and its end is what the end of such a file is; or it stood still for long, and is
// then read as what it is, cut off.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/tail/file_system.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon {

struct DumpOptions {
  std::chrono::milliseconds quiet{2000};        // without growth, and the end is there
  std::chrono::milliseconds given_up{120'000};  // without growth, whatever the end
};

// One thread at a time. Time is an argument.
class DumpGate {
 public:
  DumpGate(FileSystem& files, DumpOptions options = {}) : files_(&files), options_(options) {}
  struct Ready {
    std::string path;
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t changed_ns = 0;
    bool whole = true;                          // false: given up on
  };
  // A dump that was found or changed. One that was let through comes again only when its size, inode or time is another.
  void offer(const std::string& path, parsers::TimePoint now);
  // The same, and a writer has closed it: it is complete as soon as its end is there.
  void closed(const std::string& path, parsers::TimePoint now);
  // One that an earlier run has read. changed_ns 0: not known.
  void known(const std::string& path, std::uint64_t inode, std::uint64_t size, std::int64_t changed_ns);
  // Dumps that are complete by now; each once.
  std::vector<Ready> take(parsers::TimePoint now);
  // When to ask again; empty: nothing waits.
  std::optional<parsers::TimePoint> wake() const;
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    FileInfo info;
    parsers::TimePoint still_since{}, look_at{};
    bool closed = false;                        // since its last change
  };
  struct Done {
    std::uint64_t inode = 0, size = 0;
    std::int64_t changed_ns = 0;
  };
  FileSystem* files_;
  DumpOptions options_;
  std::map<std::string, Waiting> waiting_;
  std::map<std::string, Done> done_;
};

// Is the end of the file what the end of its kind has to be? By the first and last bytes: a pickle ends in STOP, JSON in a brace or bracket,
// an ELF core reaches to the end of what its headers name. true for what is none of these. Errors: of reading.
parsers::Result<bool> ends_whole(OpenFile& file, std::uint64_t size);

}  // namespace triage::daemon
