// SnapshotShelf: the last analysed snapshots, kept for a while so that a page can ask for their graph and for replays without sending the file
// again. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/pipeline/snapshot_file.hpp"

namespace triage::daemon::api {

class SnapshotShelf {
 public:
  // most: snapshots kept; most_bytes: of their files together (one is always kept); age: since the last use.
  SnapshotShelf(std::size_t most, std::uint64_t most_bytes, std::chrono::seconds age) : most_(most), most_bytes_(most_bytes), age_(age) {}

  // Returns the id, which nobody can guess.
  std::string put(SnapshotAnalysis analysis, std::uint64_t file_bytes);
  // Null: not there any more.
  std::shared_ptr<const SnapshotAnalysis> find(const std::string& id);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string id;
    std::shared_ptr<const SnapshotAnalysis> analysis;
    std::uint64_t bytes = 0;
    Clock::time_point used;
  };
  void drop_old(Clock::time_point now);
  const std::size_t most_;
  const std::uint64_t most_bytes_;
  const std::chrono::seconds age_;
  std::mutex mutex_;
  std::list<Entry> entries_;               // last used first
};

}  // namespace triage::daemon::api
