// EventReader: what one reader of the event stream is sent (server-sent events, each piece framed as a chunk). No sockets here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/http/event_hub.hpp"
#include "daemon/http/message.hpp"

namespace triage::daemon::api {

class EventReader {
 public:
  EventReader(const EventHub& hub, const Response::Events& from);

  std::string first() const;             // how soon to come again, where the reader stands, and that events are missing
  // The next events that the reader wants; empty optional: none now. Looks at 64 events at a time and may then give an empty text: ask again.
  std::optional<std::string> next();
  static std::string heartbeat();        // a comment, so that proxies see the connection live

 private:
  std::string gap_text() const;
  const EventHub& hub_;
  std::uint64_t position_;
  const bool gap_;
  const std::string prefix_;
};

}  // namespace triage::daemon::api
