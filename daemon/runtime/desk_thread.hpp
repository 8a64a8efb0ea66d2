// DeskThread: the thread of the desk. Takes what the workers send, has it judged and stored, and tries again as long as the store fails:
// meanwhile the queue fills and the workers wait, so that nothing is lost and memory stays bounded.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/runtime/desk.hpp"
#include "daemon/runtime/worker.hpp"

namespace triage::daemon {

struct DeskCounts {
  std::atomic<std::uint64_t> commits = 0, failed_commits = 0;
  std::atomic<std::int64_t> commit_us = 0;      // of the last one, judging included
  std::atomic<std::int64_t> turn = 0;           // when the last turn ended: microseconds since 1970
  std::atomic<std::int64_t> open_incidents = 0, sources = 0;
};

class DeskThread {
 public:
  // desk and queue outlive it. commit_seen: called after each commit with its duration; may be empty.
  DeskThread(Desk& desk, NewsQueue& queue, Worker::Clock clock, std::function<void(std::chrono::microseconds)> commit_seen = {});
  ~DeskThread() { stop(std::chrono::seconds(0)); }

  void start();
  // Something to be done on the desk's thread, between two turns.
  void call(std::function<void(Desk&)> what);
  // Closes the queue, stores what stands in it, for at most `time`. False: something could not be stored; it is read again at the next start.
  bool stop(std::chrono::milliseconds time);

  const DeskCounts& counts() const { return counts_; }
  // Why the store does not take anything in, or empty.
  std::string trouble() const;

 private:
  void loop();
  bool turn(std::chrono::milliseconds wait);

  Desk& desk_;
  NewsQueue& queue_;
  const Worker::Clock clock_;
  const std::function<void(std::chrono::microseconds)> commit_seen_;
  DeskCounts counts_;
  mutable std::mutex lock_;                     // of what follows
  std::string trouble_;
  std::vector<std::function<void(Desk&)>> calls_;
  std::atomic<bool> stopping_ = false;
  std::chrono::steady_clock::time_point stop_by_{};
  std::thread thread_;
};

}  // namespace triage::daemon
