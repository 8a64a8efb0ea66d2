// Discovery: the files that the configured patterns name, now and as they come. Walks only folders that a pattern leads into.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/tail/file_system.hpp"
#include "daemon/tail/job_template.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon {

struct FoundFile {
  std::string path;
  signatures::SourceInfo source;         // name = path; job, attempt, node, rank, local rank as far as the path says them
  enum class Kind : std::uint8_t {
    log,
    dump,                                // to be read as a whole when it is complete (dump_gate.hpp)
    packed,                              // .gz, .zst, ...: read once from start to end (compressed.hpp)
  } kind = Kind::log;
  bool link = false;                     // the name is a symbolic link: changes of the file are told in another folder
};

struct SourcePattern {
  JobTemplate form;
  FoundFile::Kind kind = FoundFile::Kind::log;
  std::string job;                       // of all its files, where the path names none
  std::vector<JobTemplate> except;
};

struct DiscoveryOptions {
  std::vector<std::string> links_into;   // folders that symbolic links may lead into, besides those of the patterns
  bool packed = false;                   // find packed files, too
  std::size_t files = 200'000;           // limit: of one scan; each costs a Tailer
  // Called before a folder is looked through, so that nothing that comes in between is missed.
  std::function<void(const std::string& folder)> watch;
};

// One thread at a time.
class Discovery {
 public:
  Discovery(FileSystem& files, std::vector<SourcePattern> patterns, DiscoveryOptions options = {});

  // Everything, each file once, in a stable order.
  std::vector<FoundFile> scan();
  // What a folder holds by now, with all below it; after it changed in an unknown way.
  std::vector<FoundFile> look(const std::string& folder);
  // What came under this name: a file, or a folder with all below it.
  std::vector<FoundFile> look(const std::string& folder, const std::string& name);
  // The file that a path names, if a pattern does; asks nothing of the file system.
  std::optional<FoundFile> find(const std::string& path) const;
  // Is it the name of a source, so that a Tailer must not take it for a rotated file of another one?
  bool is_source(const std::string& path) const;

  // Folders and links that could not be followed since the last call: no permission, a loop, a link that leads out. Each scan tells all of
  // them again, what comes between two scans each once.
  std::vector<parsers::Error> take_faults();
  // Folders that files may lie in: the patterns' roots and links_into, all links followed (for PosixFileSystem::set_roots). Asked for anew
  // by every scan, and by find_roots().
  std::vector<std::string> roots() const;
  void find_roots();

 private:
  using Positions = JobTemplate::Positions;
  struct Walk;
  void run(Walk& walk);
  void entry(Walk& walk, const std::string& folder, const FolderEntry& entry, Positions at);
  void found(Walk& walk, const std::string& folder, const FolderEntry& entry, const std::string& path, bool link);
  Positions positions_of(const SourcePattern& pattern, const std::string& folder) const;
  bool rotated(Walk& walk, const std::string& folder, const std::string& name);
  bool allowed(const std::string& real) const;
  void fault(parsers::Error error, const std::string& place);
  std::optional<FoundFile> found_by(const SourcePattern& pattern, const std::string& path) const;

  FileSystem* files_;
  std::vector<SourcePattern> patterns_;
  DiscoveryOptions options_;
  std::vector<std::string> roots_;
  std::vector<parsers::Error> faults_;
  std::set<std::string> told_;           // places whose faults were told
};

}  // namespace triage::daemon
