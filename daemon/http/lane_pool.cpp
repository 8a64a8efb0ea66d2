#include "daemon/http/lane_pool.hpp"

#include <utility>

namespace triage::daemon::api {

LanePool::LanePool(unsigned threads, std::size_t waiting) : most_waiting_(waiting) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

LanePool::~LanePool() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

bool LanePool::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= most_waiting_) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void LanePool::stop() {
  std::deque<std::function<void()>> dropped;   // destroyed outside the lock: what it holds may ask the pool
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  wake_.notify_all();
}

bool LanePool::idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && running_ == 0;
}

std::size_t LanePool::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void LanePool::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    --running_;
  }
}

}  // namespace triage::daemon::api
