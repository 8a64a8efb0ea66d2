// MountTable: which file system a path lies on, from /proc/self/mountinfo. Unlike statfs(2) that asks no file server, which may not answer.
// Source of the format: proc_pid_mountinfo(5).
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triage::daemon {

struct Mount {
  std::string point, type;               // "/data", "nfs4"
};

class MountTable {
 public:
  // Lines that cannot be read are passed over.
  static MountTable parse(std::string_view mountinfo);
  // Of this process, now; empty where /proc is missing.
  static MountTable current();

  // The mount that a path without links lies on; the last one wins where two lie on one another.
  const Mount* find(std::string_view path) const;

 private:
  std::vector<Mount> mounts_;
};

// The mounts of this process, read again now and then. Thread-safe.
class NetworkMounts {
 public:
  // The mount of a network file system that a folder without links lies on; empty: it lies on a local one.
  std::string find(const std::string& folder);

 private:
  std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> read_at_;
  MountTable table_;
};

// Do other hosts change files of such a file system, so that inotify does not tell of it (NFS, Lustre, GPFS, BeeGFS, CephFS, CIFS, FUSE, 9p, ...)?
bool is_network_type(std::string_view type);

}  // namespace triage::daemon
