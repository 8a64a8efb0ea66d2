// WatchThread: finds the files that the patterns name, now and as they come, and tells the workers of them and of their changes. One of
// these for the local file systems and one for each network file system, so that a server that does not answer holds up nothing else.
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
};

struct WatchState {
  std::size_t files = 0;
  WatchCounts counts;
  std::vector<std::string> faults;              // folders that could not be read, files over the limit; the last few
  std::chrono::microseconds scan_time{};        // of the last full search
  bool scanned = false;                         // the first search is done
};

class WatchThread {
 public:
  // known: paths of an earlier run that may be gone by now; those that a pattern names are followed all the same. files outlives this.
  WatchThread(FileSystem& files, std::vector<SourcePattern> patterns, const SourceConfig& config, std::vector<std::string> known, WatchTarget target,
              Worker::Clock clock);
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
