// LanePool: a few threads with a bounded queue. What runs on one lane never waits for another, so slow work does not stop quick answers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace triage::daemon::api {

class LanePool {
 public:
  LanePool(unsigned threads, std::size_t waiting);
  ~LanePool();                                  // waits for what runs; what waits is dropped
  LanePool(const LanePool&) = delete;
  LanePool& operator=(const LanePool&) = delete;

  // False when the queue is full or the pool stops. work must not throw.
  bool post(std::function<void()> work);
  // Takes no more work and drops what waits. Returns at once.
  void stop();
  // Is nothing running and waiting?
  bool idle() const;
  std::size_t waiting() const;

 private:
  void loop();
  const std::size_t most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::size_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace triage::daemon::api
