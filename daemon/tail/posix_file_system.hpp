// PosixFileSystem: the real files. Keeps the number of open descriptors under a limit: the file used longest ago gives its descriptor back.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/tail/file_system.hpp"
#include "daemon/tail/mount_table.hpp"

namespace triage::daemon {

struct PosixFileOptions {
  std::size_t descriptors = 256;         // open at the same time; running out of the process's own limit lowers it for the moment
};

// Of `wanted`, as many as the process's limit of open files leaves when the database, connections and sinks have theirs; at least 1.
std::size_t descriptors_within_limit(std::size_t wanted);

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(PosixFileOptions options = {}) : options_(std::move(options)) {}
  // All files must be gone.
  ~PosixFileSystem() override = default;
  PosixFileSystem(const PosixFileSystem&) = delete;
  PosixFileSystem& operator=(const PosixFileSystem&) = delete;

  parsers::Result<FileInfo> info(const std::string& path, bool follow = true) override;
  parsers::Result<std::unique_ptr<OpenFile>> open(const std::string& path) override;
  parsers::Result<std::vector<FolderEntry>> list(const std::string& folder) override;
  parsers::Result<std::string> real_path(const std::string& path) override;
  bool remote(const std::string& folder) override;

  // Folders that files may lie in after all links are followed; real paths, without '/' at the end. Empty: anywhere. From any thread, for
  // files that are opened from then on.
  void set_roots(std::vector<std::string> roots);
  // Closes descriptors that were not used for `idle`; call now and then, from any thread. Files that were deleted keep theirs.
  void close_idle(std::chrono::steady_clock::duration idle);
  std::size_t open_descriptors() const;

 private:
  class File;
  struct Closing;
  bool take(File& file, Closing& closing);
  // Takes descriptors back, oldest first; files without a name last. Returns how many.
  std::size_t take_back(std::size_t count);
  std::shared_ptr<const std::vector<std::string>> roots() const;
  int open_fd(const char* path, int flags);

  PosixFileOptions options_;
  NetworkMounts mounts_;
  mutable std::mutex mutex_;             // of used_ and roots_; taken before a file's own, which is then only tried
  std::shared_ptr<const std::vector<std::string>> roots_;
  std::list<File*> used_;                // those with a descriptor; the one used longest ago first
};

}  // namespace triage::daemon
