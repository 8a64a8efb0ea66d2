// Alerts on their way: what is due, what is being sent, what was sent, what failed for good. Used by the sender through a connection of
// its own, beside the writer. Every change is on the disk before the call returns (synchronous FULL), so that neither a kill nor a loss of
// power makes an alert go out twice. One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "db/live_rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

struct Receipt {
  std::string channel, receipt;
  parsers::TimePoint created_at;
};

struct SinkCount {
  std::string sink;
  OutboxState state = OutboxState::waiting;
  std::int64_t items = 0;
  parsers::TimePoint oldest;           // created_at of the oldest of them
};

struct Recovered {
  std::int64_t waiting = 0;            // put back: their sink may be told twice without harm
  std::int64_t uncertain = 0;          // were being sent when the service died; shown, never sent again by themselves
};

class Outbox {
 public:
  // The file has to be there with the newest schema (LiveStore::open makes it so). Errors as of LiveStore::open.
  static parsers::Result<Outbox> open(const std::string& path, int busy_timeout_ms = 5000);

  // At the start, before the first take: what a killed service left in 'sending'.
  parsers::Result<Recovered> recover(const std::vector<std::string>& idempotent_sinks, parsers::TimePoint now);

  // Waiting items whose time has come, oldest time first. Of one incident at one sink only the first that is not finished: order holds
  // within a thread, and an update never passes its opening that waits for a retry.
  parsers::Result<std::vector<OutboxItem>> due(parsers::TimePoint now, std::int64_t limit);
  // The same of one sink: a sink that is down does not fill the list of the others.
  parsers::Result<std::vector<OutboxItem>> due_at(const std::string& sink, parsers::TimePoint now, std::int64_t limit);
  // When the next item that is not due yet comes due; empty: none waits for a later time.
  parsers::Result<std::optional<parsers::TimePoint>> next_due(parsers::TimePoint now);

  // To 'sending', with tries one higher. False: it is not waiting any more; do not send.
  parsers::Result<bool> take(std::int64_t id, parsers::TimePoint now);
  // receipt: what names the message at the sink, or empty. The first receipt of (sink, incident) stays as its thread.
  parsers::Status sent(std::int64_t id, const std::string& receipt, parsers::TimePoint now);
  // Back to waiting, not before the time given.
  parsers::Status retry(std::int64_t id, parsers::TimePoint not_before, const std::string& error, parsers::TimePoint now);
  // The clock was set back: what was to wait from a time that is still to come waits as long from now on. Part of recover().
  parsers::Status set_back(parsers::TimePoint now);
  // Given up; shown as a dead letter.
  parsers::Status dead(std::int64_t id, const std::string& error, parsers::TimePoint now);
  // Nobody knows whether it arrived (the answer never came) and the sink is not idempotent.
  parsers::Status uncertain(std::int64_t id, const std::string& error, parsers::TimePoint now);

  // A dead or uncertain item goes out again because a person wants it. Errors: not_found, conflict (it is neither).
  parsers::Status requeue(std::int64_t id, parsers::TimePoint now);

  // The message that later ones of the incident update or answer. Empty: none yet.
  parsers::Result<std::optional<Receipt>> receipt(const std::string& sink, const std::string& incident);
  // The message is gone at the sink: the next one begins a new thread.
  parsers::Status forget_receipt(const std::string& sink, const std::string& incident);

  parsers::Result<std::vector<SinkCount>> counts();

 private:
  explicit Outbox(Connection connection) : connection_(std::move(connection)) {}
  parsers::Status finish(std::int64_t id, OutboxState state, parsers::TimePoint not_before, const std::string& error, parsers::TimePoint now);
  Connection connection_;
};

}  // namespace triage::db
