// EventHub: the last events of the service, for readers that follow them (server-sent events). Thread-safe; a publisher never waits for a
// reader. Ids go on over the life of the process and begin with its start, so that an id of an earlier process is recognised.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace triage::daemon {

struct HubEvent {
  std::uint64_t sequence = 0;   // from 1
  std::string type;             // incident.opened, incident.updated, incident.closed, feedback, silence, source, health
  std::string data;             // one line of JSON
};

// What a reader gets who knew the events up to some id.
struct HubPage {
  std::vector<HubEvent> events;
  std::uint64_t last = 0;       // sequence to ask from next
  bool gap = false;             // events between are gone: the reader has to load anew
};

class EventHub {
 public:
  // epoch: tells this process from an earlier one, letters and digits; keep: events remembered; keep_bytes: of their data together.
  explicit EventHub(std::string epoch, std::size_t keep = 4096, std::size_t keep_bytes = 16 * 1024 * 1024);

  // data: one line of JSON (line ends in it are replaced by blanks). Calls the listeners after the event stands, outside the lock.
  void publish(std::string type, std::string data);

  // Events after `sequence`, oldest first, at most `limit`.
  HubPage after(std::uint64_t sequence, std::size_t limit) const;
  std::uint64_t last() const;

  // "EPOCH-SEQUENCE", and back. parse: nothing known of that id (other process, not a number) gives gap.
  std::string id_of(std::uint64_t sequence) const;
  struct Position {
    std::uint64_t sequence = 0;
    bool gap = false;
  };
  Position parse(std::string_view id) const;

  // wake is called after each publish, from the publisher's thread; it must return at once. Returns a token for unlisten; after unlisten
  // returned, wake is not called again.
  int listen(std::function<void()> wake);
  void unlisten(int token);

 private:
  const std::string epoch_;
  const std::size_t keep_, keep_bytes_;
  mutable std::mutex mutex_;
  std::deque<HubEvent> events_;
  std::size_t bytes_ = 0;
  std::uint64_t last_ = 0;
  std::mutex listen_mutex_;
  std::map<int, std::function<void()>> listeners_;
  int next_token_ = 1;
};

}  // namespace triage::daemon
