// BoundedQueue: from several threads to one. Full, it makes the senders wait: that is the back-pressure of the service.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace triage::daemon {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : limit_(limit) {}

  // Waits while the queue is full. False: it was closed, the item was not taken.
  bool push(T item) {
    std::unique_lock guard(lock_);
    if (items_.size() >= limit_ && !closed_) {
      const auto begin = std::chrono::steady_clock::now();
      room_.wait(guard, [&] { return items_.size() < limit_ || closed_; });
      waited_ += std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
    }
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return true;
  }
  // Waits up to that time for room. False: there is none, or the queue is closed.
  bool has_room(std::chrono::milliseconds time) {
    std::unique_lock guard(lock_);
    return room_.wait_for(guard, time, [&] { return items_.size() < limit_ || closed_; }) && !closed_;
  }
  // All that stands there; waits until something does, the time is over, or the queue is closed.
  std::deque<T> take(std::chrono::milliseconds time) {
    std::unique_lock guard(lock_);
    filled_.wait_for(guard, time, [&] { return !items_.empty() || closed_; });
    std::deque<T> out = std::exchange(items_, {});
    room_.notify_all();
    return out;
  }
  // No more comes in; what stands there can still be taken.
  void close() {
    const std::lock_guard guard(lock_);
    closed_ = true;
    room_.notify_all();
    filled_.notify_all();
  }
  std::size_t size() const {
    const std::lock_guard guard(lock_);
    return items_.size();
  }
  // Time that senders have waited, all together.
  std::chrono::microseconds waited() const {
    const std::lock_guard guard(lock_);
    return waited_;
  }

 private:
  const std::size_t limit_;
  mutable std::mutex lock_;
  std::condition_variable room_, filled_;
  std::deque<T> items_;
  std::chrono::microseconds waited_{};
  bool closed_ = false;
};

}  // namespace triage::daemon
