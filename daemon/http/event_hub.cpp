#include "daemon/http/event_hub.hpp"

#include <algorithm>
#include <utility>

#include "parsers/base/text.hpp"

namespace triage::daemon {

EventHub::EventHub(std::string epoch, std::size_t keep, std::size_t keep_bytes)
    : epoch_(std::move(epoch)), keep_(std::max<std::size_t>(keep, 1)), keep_bytes_(keep_bytes) {}

void EventHub::publish(std::string type, std::string data) {
  const auto end_of_line = [](char c) { return c == '\n' || c == '\r'; };
  std::replace_if(type.begin(), type.end(), end_of_line, ' ');
  std::replace_if(data.begin(), data.end(), end_of_line, ' ');
  {
    const std::lock_guard lock(mutex_);
    bytes_ += data.size();
    events_.push_back({++last_, std::move(type), std::move(data)});
    while (events_.size() > keep_ || (bytes_ > keep_bytes_ && events_.size() > 1)) {
      bytes_ -= events_.front().data.size();
      events_.pop_front();
    }
  }
  const std::lock_guard lock(listen_mutex_);
  for (const auto& [token, wake] : listeners_) wake();
}

HubPage EventHub::after(std::uint64_t sequence, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  HubPage page;
  if (sequence > last_) sequence = last_;
  page.last = sequence;
  const std::uint64_t first = last_ + 1 - events_.size();
  std::size_t at = 0;
  if (sequence + 1 < first)
    page.gap = true;
  else
    at = static_cast<std::size_t>(sequence + 1 - first);
  for (; at < events_.size() && page.events.size() < limit; ++at) {
    page.events.push_back(events_[at]);
    page.last = events_[at].sequence;
  }
  return page;
}

std::uint64_t EventHub::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::string EventHub::id_of(std::uint64_t sequence) const { return epoch_ + "-" + std::to_string(sequence); }

EventHub::Position EventHub::parse(std::string_view id) const {
  const std::uint64_t newest = last();
  if (!parsers::consume(id, epoch_) || !parsers::consume(id, "-")) return {newest, true};
  const auto number = parsers::read_integer(id);
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > newest) return {newest, true};
  return {static_cast<std::uint64_t>(*number), false};
}

int EventHub::listen(std::function<void()> wake) {
  const std::lock_guard lock(listen_mutex_);
  listeners_[next_token_] = std::move(wake);
  return next_token_++;
}

void EventHub::unlisten(int token) {
  const std::lock_guard lock(listen_mutex_);
  listeners_.erase(token);
}

}  // namespace triage::daemon
