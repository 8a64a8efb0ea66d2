#include "daemon/runtime/desk_thread.hpp"
#include "daemon/runtime/thread_name.hpp"

#include <algorithm>

namespace triage::daemon {

namespace {

constexpr auto kGather = std::chrono::milliseconds(2);      // one commit takes what comes within this time
constexpr auto kAgain = std::chrono::milliseconds(200);     // between two tries of a store that fails

}  // namespace

DeskThread::DeskThread(Desk& desk, NewsQueue& queue, Worker::Clock clock, std::function<void(std::chrono::microseconds)> commit_seen)
    : desk_(desk), queue_(queue), clock_(std::move(clock)), commit_seen_(std::move(commit_seen)) {}

void DeskThread::start() {
  thread_ = std::thread([this] { loop(); });
}

void DeskThread::call(std::function<void(Desk&)> what) {
  const std::lock_guard guard(lock_);
  calls_.push_back(std::move(what));
}

std::string DeskThread::trouble() const {
  const std::lock_guard guard(lock_);
  return trouble_;
}

bool DeskThread::stop(std::chrono::milliseconds time) {
  queue_.close();
  stop_by_ = std::chrono::steady_clock::now() + time;
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  return !desk_.holds_unstored() && queue_.size() == 0;
}

// False: the store failed.
bool DeskThread::turn(std::chrono::milliseconds wait) {
  std::deque<std::vector<SourceNews>> portions = queue_.take(wait);
  if (!portions.empty() && !stopping_ && portions.size() < 4) {
    std::this_thread::sleep_for(kGather);
    for (auto& portion : queue_.take(std::chrono::milliseconds(0))) portions.push_back(std::move(portion));
  }
  std::vector<SourceNews> news;
  for (std::vector<SourceNews>& portion : portions)
    for (SourceNews& one : portion) news.push_back(std::move(one));
  std::vector<std::function<void(Desk&)>> calls;
  {
    const std::lock_guard guard(lock_);
    calls.swap(calls_);
  }
  for (const auto& call : calls) call(desk_);
  const auto begin = std::chrono::steady_clock::now();
  const bool something = !news.empty();
  const parsers::Status stored = desk_.take(std::move(news), clock_());
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  counts_.open_incidents = static_cast<std::int64_t>(desk_.open_incidents());
  counts_.sources = static_cast<std::int64_t>(desk_.sources());
  const std::lock_guard guard(lock_);
  if (!stored.ok()) {
    ++counts_.failed_commits;
    trouble_ = stored.error().message() + (stored.error().reason().empty() ? "" : ": " + stored.error().reason());
    return false;
  }
  trouble_.clear();
  if (something) {
    ++counts_.commits;
    counts_.commit_us = took.count();
    if (commit_seen_) commit_seen_(took);
  }
  return true;
}

void DeskThread::loop() {
  name_thread("desk");
  bool well = true;
  for (;;) {
    auto wait = std::chrono::milliseconds(500);
    if (const auto due = desk_.next_due()) wait = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*due - clock_()), std::chrono::milliseconds(0), wait);
    if (!well) {   // do not take more in before the store works: the queue is the limit
      std::this_thread::sleep_for(kAgain);
      wait = std::chrono::milliseconds(0);
    }
    if (!well && !stopping_) {
      const parsers::Status stored = desk_.take({}, clock_());
      counts_.turn = clock_().time_since_epoch().count();
      well = stored.ok();
      continue;
    }
    well = turn(wait);
    counts_.turn = clock_().time_since_epoch().count();
    if (stopping_ && queue_.size() == 0 && (!desk_.holds_unstored() || std::chrono::steady_clock::now() >= stop_by_)) return;
    if (stopping_ && std::chrono::steady_clock::now() >= stop_by_) return;
  }
}

}  // namespace triage::daemon
