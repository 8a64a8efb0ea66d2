// Housekeeping: a thread for what has to be done now and then and may wait: the store's retention and log file, silences that others made,
// changed files of configuration and rules, figures that cost a look into the store.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/runtime/worker.hpp"
#include "db/query.hpp"
#include "db/retention.hpp"

namespace triage::daemon {

// What the store said when it was last asked.
struct StoreFigures {
  std::optional<db::StoreTotals> totals;
  std::vector<db::SinkCount> outbox;
  std::string trouble;                          // retention or a look failed, or empty
  bool short_of_closed = false;                 // over its size, and nothing left that may be deleted
};

class Housekeeping {
 public:
  struct Parts {
    std::string database;
    Worker::Clock clock;
    std::function<std::vector<std::string>()> watched_files;        // of configuration and rules, and the folders they stand in
    std::function<void()> files_changed;
    std::function<void(std::vector<db::Silence>)> silences_changed;
    std::function<void()> every_second;
  };
  explicit Housekeeping(Parts parts, db::RetentionLimits limits);
  ~Housekeeping() { stop(); }

  void start();
  void stop();
  // Silences may be others now: look at once.
  void look();
  void apply(const db::RetentionLimits& limits);
  StoreFigures figures() const;

 private:
  void loop();
  void keep_house();
  void look_at_files();
  void look_at_store();

  const Parts parts_;
  std::optional<db::Retention> retention_;
  std::optional<db::Query> query_;
  std::string files_state_;
  std::vector<db::Silence> silences_;
  bool silences_known_ = false, more_ = false;
  std::chrono::steady_clock::time_point slice_at_{}, figures_at_{};
  mutable std::mutex lock_;                     // of what follows
  db::RetentionLimits limits_;
  StoreFigures figures_;
  bool look_ = false, stopping_ = false;
  std::condition_variable called_;
  std::thread thread_;
};

}  // namespace triage::daemon
