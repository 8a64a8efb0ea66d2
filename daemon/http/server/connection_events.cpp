// A connection that follows the events of the service: it writes what the hub has, waits, and ends when the peer leaves.
#include <utility>

#include "daemon/http/server/connection.hpp"

namespace triage::daemon::api {

namespace {
constexpr std::size_t kWatchRead = 1024;   // a follower has nothing to say
}

void Connection::begin_events(const Response& response) {
  state_ = State::events;
  events_.emplace(server_.hub, *response.events);
  server_.streams_gauge.set(static_cast<double>(++server_.streams));
  keep_alive_ = false;
  out_ = response_head(response, std::nullopt, false) + events_->first();
  end_request();
  watch_for_end();
  events_wait_ = false;
  write_all(out_, [this] { pump(); });
}

void Connection::wake() {
  if (state_ == State::events && events_wait_ && !closed_) pump();
}

void Connection::pump() {
  if (closed_) return;
  std::optional<std::string> text = events_->next();
  if (text && !text->empty()) return send_events(std::move(*text));
  if (text) {   // events that this reader does not want: others have their turn first
    events_wait_ = false;
    server_.post([self = shared_from_this()] { self->pump(); });
    return;
  }
  events_wait_ = true;
  last_event_ = Clock::now();
  deadline_ = Clock::time_point::max();
}

void Connection::send_events(std::string text) {
  out_ = std::move(text);
  events_wait_ = false;
  write_all(out_, [this] { pump(); });
}

void Connection::watch_for_end() {
  in_begin_ = in_end_ = 0;
  make_room(kWatchRead);
  read_more([this] { watch_for_end(); });
}

}  // namespace triage::daemon::api
