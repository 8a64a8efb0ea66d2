// SystemIntake: a thread that reads the kernel's log and the journal, and tells the desk what stands in them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/runtime/line_stream.hpp"
#include "daemon/tail/system_sources.hpp"

namespace triage::daemon {

class SystemIntake {
 public:
  SystemIntake(RulesInForce rules, NewsQueue& desk, Worker::LoadSpool load_spool, Worker::Clock clock, int default_year);
  ~SystemIntake() { stop(); }

  // Before start(). kind: kmsg or journal; known: the row of an earlier run.
  void add(std::unique_ptr<SystemSource> source, std::string kind, std::string node, const std::optional<db::WatchedRow>& known);
  bool empty() const { return sources_.empty(); }
  void start();
  void stop();
  void use(RulesInForce rules);
  // Why a source gives nothing, or empty.
  std::string trouble() const;

 private:
  struct Read {
    std::unique_ptr<SystemSource> source;
    LineStream lines;
    std::string trouble;
    std::string cursor = {};                    // told last
  };
  void loop();
  void read(Read& one);

  NewsQueue& desk_;
  const Worker::LoadSpool load_spool_;
  const Worker::Clock clock_;
  const int default_year_;
  std::vector<Read> sources_;
  std::unique_ptr<BlockScanner> scanner_;
  RulesInForce rules_;                          // of the thread
  mutable std::mutex lock_;                     // of what follows
  RulesInForce next_rules_;
  std::string trouble_;
  std::atomic<bool> stopping_ = false;
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace triage::daemon
