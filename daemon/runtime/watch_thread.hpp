// WatchThread: finds the files that the patterns name, now and as they come, and tells the workers of them and of their changes. The file
// system has to answer within a moment, also where a file server does not (guarded_file_system.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/runtime/worker.hpp"
#include "daemon/tail/discovery.hpp"
#include "daemon/tail/dump_gate.hpp"
#include "daemon/tail/source_config.hpp"
#include "daemon/tail/watcher.hpp"

namespace triage::daemon {

// What the watcher does not do itself; called from its thread.
struct WatchTarget {
  std::function<void(const FoundFile& file, std::uint64_t skip)> follow;
  std::function<void(const std::string& path)> wake;
  // Folders that watched files may lie in, all links followed. May be empty.
  std::function<void(std::vector<std::string> folders)> roots;
  // A full search took so long. May be empty.
  std::function<void(std::chrono::microseconds took)> searched;
};

struct WatchState {
  std::size_t files = 0;
  WatchCounts counts;
  std::vector<std::string> faults;              // folders that cannot be read, files over the limit; the last few
  std::chrono::microseconds scan_time{};        // of the last full search
  bool scanned = false;                         // the first search is done
};

class WatchThread {
 public:
  // known: paths of an earlier run that may be gone by now; those that a pattern names are followed all the same. files outlives this.
  // again: with faults, everything is looked at after this time, and then ever more seldom, until there are none.
  WatchThread(FileSystem& files, std::vector<SourcePattern> patterns, const SourceConfig& config, std::vector<std::string> known, WatchTarget target,
              Worker::Clock clock, std::chrono::milliseconds again = std::chrono::seconds(30));
  ~WatchThread() { stop(); }

  void start();
  // Returns when the thread has ended; a thread that waits for a file system is left to it after `time`: false.
  bool stop(std::chrono::milliseconds time = std::chrono::seconds(2));
  WatchState state() const;
  // When its last turn began, microseconds since 1970, and whether it waits between two turns.
  std::int64_t turn() const { return shared_->turn; }
  bool waiting() const { return shared_->waiting; }

 private:
  // What the thread works on: lives as long as either of the two.
  struct Shared {
    Shared(FileSystem& file_system, const SourceConfig& sources) : files(file_system), config(sources) {}
    FileSystem& files;
    const SourceConfig config;
    std::vector<SourcePattern> patterns;
    std::vector<std::string> known;
    WatchTarget target;
    Worker::Clock clock;
    std::chrono::milliseconds again{};
    int wake_fd = -1;
    std::atomic<bool> stopping = false, ended = false, waiting = true;
    std::atomic<std::int64_t> turn = 0;
    mutable std::mutex lock;                    // of state
    WatchState state;
    ~Shared();
  };
  class Loop;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace triage::daemon
