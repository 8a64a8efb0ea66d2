// GuardedFileSystem: keeps a file server that does not answer from holding anybody up. Calls that go to a network file system run on threads
// of their own; who asks waits a moment, and is then told `limit`: ask again. The answer is kept for that. A few calls of one mount may be
// stuck at the same time, so that one bad file does not stop the others; with more of them the whole mount is told to be stuck at once.
// Calls to local file systems go straight through.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/tail/file_system.hpp"

namespace triage::daemon {

struct GuardOptions {
  std::chrono::milliseconds patience{200};   // of who asks
  std::size_t stuck_calls = 8;               // of one mount, each with a thread; further ones are refused until one comes back
  std::chrono::seconds placed{600};          // so long it is believed that a folder lies on its mount
};

struct StuckMount {
  std::string mount;
  std::size_t calls = 0;
  std::chrono::steady_clock::time_point since;   // of the oldest of them
};

// Thread-safe.
class GuardedFileSystem final : public FileSystem {
 public:
  // The mount that a folder without links lies on; empty: local. May not wait.
  using MountOf = std::function<std::string(const std::string& folder)>;
  GuardedFileSystem(std::shared_ptr<FileSystem> inner, GuardOptions options, MountOf mount_of);
  // By the mounts of this process, read again now and then.
  GuardedFileSystem(std::shared_ptr<FileSystem> inner, GuardOptions options = {});
  // Calls that are stuck are left behind with what they need.
  ~GuardedFileSystem() override;
  GuardedFileSystem(const GuardedFileSystem&) = delete;
  GuardedFileSystem& operator=(const GuardedFileSystem&) = delete;

  parsers::Result<FileInfo> info(const std::string& path, bool follow = true) override;
  parsers::Result<std::unique_ptr<OpenFile>> open(const std::string& path) override;
  parsers::Result<std::vector<FolderEntry>> list(const std::string& folder) override;
  parsers::Result<std::string> real_path(const std::string& path) override;
  bool remote(const std::string& folder) override;

  // For health: mounts with calls that take longer than is waited for.
  std::vector<StuckMount> stuck() const;

 private:
  class Lane;
  class File;
  // No lane: local.
  parsers::Result<std::shared_ptr<Lane>> lane_of(const std::string& folder);
  parsers::Result<std::shared_ptr<Lane>> lane_of_name(const std::string& path, bool follow);
  std::shared_ptr<Lane> lane(const std::string& mount);

  std::shared_ptr<FileSystem> inner_;
  const GuardOptions options_;
  MountOf mount_of_;
  mutable std::mutex mutex_;             // of what follows
  std::unordered_map<std::string, std::shared_ptr<Lane>> lanes_;   // by mount
  struct Placed {
    std::shared_ptr<Lane> lane;
    std::chrono::steady_clock::time_point at;
  };
  std::unordered_map<std::string, Placed> placed_;                 // by folder
};

}  // namespace triage::daemon
