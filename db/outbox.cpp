#include "db/outbox.hpp"

#include "db/beside.hpp"
#include "db/convert.hpp"
#include "db/live_readers.hpp"

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::Status;
using parsers::TimePoint;

namespace {

Error gone(const Connection& connection, std::int64_t id) {
  return Error(ErrorCode::not_found, "the outbox has no item " + std::to_string(id)).at(Place{connection.path(), {}, {}, {}, {}});
}

}  // namespace

Result<Outbox> Outbox::open(const std::string& path, int busy_timeout_ms) {
  TRIAGE_TRY(Connection connection, open_beside(path, busy_timeout_ms));
  TRIAGE_CHECK(connection.execute("PRAGMA synchronous = FULL"));
  return Outbox(std::move(connection));
}

Result<Recovered> Outbox::recover(const std::vector<std::string>& idempotent_sinks, TimePoint now) {
  Recovered out;
  TRIAGE_CHECK(set_back(now));
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement back, connection_.prepare("UPDATE outbox SET state = 'waiting', error = 'the service stopped while it was being sent', "
                                                 "not_before = min(not_before, ?2), changed_at = ?2 WHERE state = 'sending' AND sink = ?1"));
  for (const std::string& sink : idempotent_sinks) {
    TRIAGE_CHECK(back.bind(1, sink).bind(2, micros(now)).run());
    out.waiting += connection_.changes();
  }
  TRIAGE_TRY(Statement rest, connection_.prepare("UPDATE outbox SET state = 'uncertain', error = 'the service stopped while it was being sent: "
                                                 "it may have arrived', changed_at = ?1 WHERE state = 'sending'"));
  TRIAGE_CHECK(rest.bind(1, micros(now)).run());
  out.uncertain = connection_.changes();
  TRIAGE_CHECK(transaction.commit());
  return out;
}

Result<std::vector<OutboxItem>> Outbox::due(TimePoint now, std::int64_t limit) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kOutboxColumns) +
                                                 "WHERE o.state = 'waiting' AND o.not_before <= ?1 AND NOT EXISTS (SELECT 1 FROM outbox e "
                                                 "WHERE e.sink = o.sink AND e.incident = o.incident AND e.state IN ('waiting', 'sending') "
                                                 "AND e.id < o.id) ORDER BY o.not_before, o.id LIMIT ?2"));
  return rows_of(rows.bind(1, micros(now)).bind(2, limit), outbox_row);
}

Result<std::vector<OutboxItem>> Outbox::due_at(const std::string& sink, TimePoint now, std::int64_t limit) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kOutboxColumns) +
                                                 "WHERE o.state = 'waiting' AND o.sink = ?3 AND o.not_before <= ?1 AND NOT EXISTS (SELECT 1 FROM "
                                                 "outbox e WHERE e.sink = o.sink AND e.incident = o.incident AND e.state IN ('waiting', 'sending') "
                                                 "AND e.id < o.id) ORDER BY o.not_before, o.id LIMIT ?2"));
  return rows_of(rows.bind(1, micros(now)).bind(2, limit).bind(3, sink), outbox_row);
}

Result<std::optional<TimePoint>> Outbox::next_due(TimePoint now) {
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT min(not_before) FROM outbox WHERE state = 'waiting' AND not_before > ?1"));
  TRIAGE_TRY(const bool row, rows.bind(1, micros(now)).step());
  return row && !rows.is_null(0) ? std::optional<TimePoint>(time_of(rows.integer(0))) : std::nullopt;
}

Result<bool> Outbox::take(std::int64_t id, TimePoint now) {
  TRIAGE_TRY(Statement take, connection_.prepare("UPDATE outbox SET state = 'sending', tries = tries + 1, changed_at = ?2 "
                                                 "WHERE id = ?1 AND state = 'waiting'"));
  TRIAGE_CHECK(take.bind(1, id).bind(2, micros(now)).run());
  return connection_.changes() == 1;
}

Status Outbox::sent(std::int64_t id, const std::string& receipt, TimePoint now) {
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement sent, connection_.prepare("UPDATE outbox SET state = 'sent', receipt = ?2, error = '', body = '', changed_at = ?3 WHERE id = ?1"));
  TRIAGE_CHECK(sent.bind(1, id).bind(2, receipt).bind(3, micros(now)).run());
  if (connection_.changes() == 0) return gone(connection_, id);
  if (!receipt.empty()) {
    TRIAGE_TRY(Statement keep, connection_.prepare("INSERT INTO receipt(sink, incident, channel, receipt, created_at) "
                                                   "SELECT sink, incident, channel, receipt, changed_at FROM outbox WHERE id = ?1 "
                                                   "ON CONFLICT DO NOTHING"));
    TRIAGE_CHECK(keep.bind(1, id).run());
  }
  return transaction.commit();
}

Status Outbox::finish(std::int64_t id, OutboxState state, TimePoint not_before, const std::string& error, TimePoint now) {
  TRIAGE_TRY(Statement change,
             connection_.prepare("UPDATE outbox SET state = ?2, not_before = ?3, error = ?4, changed_at = ?5 WHERE id = ?1 AND state IN ('waiting', 'sending')"));
  change.bind(1, id).bind(2, outbox_state_name(state)).bind(3, micros(not_before)).bind(4, error).bind(5, micros(now));
  TRIAGE_CHECK(change.run());
  if (connection_.changes() == 0) return gone(connection_, id);
  return parsers::done();
}

Status Outbox::set_back(TimePoint now) {
  TRIAGE_TRY(Statement change, connection_.prepare("UPDATE outbox SET not_before = not_before - (changed_at - ?1), changed_at = ?1 WHERE state = 'waiting' AND changed_at > ?1"));
  change.bind(1, micros(now));
  return change.run();
}

Status Outbox::retry(std::int64_t id, TimePoint not_before, const std::string& error, TimePoint now) {
  return finish(id, OutboxState::waiting, not_before, error, now);
}

Status Outbox::dead(std::int64_t id, const std::string& error, TimePoint now) { return finish(id, OutboxState::dead, now, error, now); }

Status Outbox::uncertain(std::int64_t id, const std::string& error, TimePoint now) { return finish(id, OutboxState::uncertain, now, error, now); }

Status Outbox::requeue(std::int64_t id, TimePoint now) {
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement state, connection_.prepare("SELECT state FROM outbox WHERE id = ?1"));
  TRIAGE_TRY(const bool row, state.bind(1, id).step());
  if (!row) return gone(connection_, id);
  if (state.text(0) != "dead" && state.text(0) != "uncertain")
    return Error(ErrorCode::conflict, "item " + std::to_string(id) + " of the outbox is " + state.text(0))
        .at(Place{connection_.path(), {}, {}, {}, {}})
        .help("only what is dead or uncertain can be sent again");
  TRIAGE_TRY(Statement change, connection_.prepare("UPDATE outbox SET state = 'waiting', not_before = ?2, changed_at = ?2 WHERE id = ?1"));
  TRIAGE_CHECK(change.bind(1, id).bind(2, micros(now)).run());
  TRIAGE_CHECK(state.run());
  return transaction.commit();
}

Result<std::optional<Receipt>> Outbox::receipt(const std::string& sink, const std::string& incident) {
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT channel, receipt, created_at FROM receipt WHERE sink = ?1 AND incident = ?2"));
  TRIAGE_TRY(const bool row, rows.bind(1, sink).bind(2, incident).step());
  if (!row) return std::optional<Receipt>();
  return std::optional<Receipt>(Receipt{rows.text(0), rows.text(1), time_of(rows.integer(2))});
}

Status Outbox::forget_receipt(const std::string& sink, const std::string& incident) {
  TRIAGE_TRY(Statement drop, connection_.prepare("DELETE FROM receipt WHERE sink = ?1 AND incident = ?2"));
  return drop.bind(1, sink).bind(2, incident).run();
}

Result<std::vector<SinkCount>> Outbox::counts() { return read_sink_counts(connection_); }

}  // namespace triage::db
