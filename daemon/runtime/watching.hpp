// Watching: the agent half of the service as a whole: file system, workers, and the thread that finds files. A file server that does not
// answer holds up nothing (guarded_file_system.hpp); dumps and packed files, which take long to read, have a worker of their own.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/runtime/watch_thread.hpp"
#include "daemon/runtime/worker.hpp"
#include "daemon/tail/guarded_file_system.hpp"
#include "daemon/tail/posix_file_system.hpp"
#include "daemon/tail/source_config.hpp"

namespace triage::daemon {

struct WatchingState {
  std::size_t files = 0, polled_files = 0;
  bool scanned = false;                         // everything was searched once
  std::uint64_t bytes = 0, lines = 0, lost_bytes = 0, errors = 0, findings = 0;
  std::chrono::microseconds scan_time{};        // of the last full search
  std::vector<std::string> troubles;            // sentences: what is wrong and what it means
};

class Watching {
 public:
  struct Parts {
    NewsQueue* desk = nullptr;
    Worker::LoadRow load_row;
    Worker::LoadSpool load_spool;
    Worker::Clock clock;
    int default_year = 1970;
    std::function<void(std::chrono::microseconds)> searched;   // a full search took so long; may be empty
  };
  // workers: of local files; 0: one a core, at most 8.
  Watching(std::shared_ptr<const Knowledge> knowledge, const SourceConfig& config, unsigned workers, Parts parts);
  ~Watching();

  // known: paths of an earlier run.
  void start(std::vector<std::string> known);
  // Other patterns: files that are named no longer are let go of.
  void apply(const SourceConfig& config);
  void use(std::shared_ptr<const Knowledge> knowledge);
  // On the thread of the dumps; what it says goes to the desk.
  void read_again(const signatures::SourceInfo& dump) { slow_->read_again(dump); }
  WatchingState state(parsers::TimePoint now) const;
  // What the watched folders hold; thread-safe.
  FileSystem& files() { return files_; }
  // Intakes that were let go of so far.
  std::uint64_t rested() const;
  // Gives back descriptors of files that were not read for a while.
  void close_idle();
  // The threads end, for at most `time`. False: one waits for a file system and was left to it; then this object has to live as long as the process.
  bool stop(std::chrono::milliseconds time);

 private:
  struct Patterns;                              // of the tailers: is this path a source of its own?
  Worker& worker_of(const std::string& path, FoundFile::Kind kind);
  std::unique_ptr<Worker> make_worker();
  void start_finder(std::vector<std::string> known);

  const std::shared_ptr<PosixFileSystem> disk_;
  GuardedFileSystem files_;
  const Parts parts_;
  std::shared_ptr<Patterns> patterns_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Worker> slow_;                // dumps and packed files
  mutable std::mutex lock_;                     // of what follows
  SourceConfig config_;
  std::shared_ptr<const Knowledge> knowledge_;
  std::unique_ptr<WatchThread> finder_;
  bool running_ = false, stuck_ = false;
};

}  // namespace triage::daemon
