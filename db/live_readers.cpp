#include "db/live_readers.hpp"

#include "db/convert.hpp"

namespace triage::db {

namespace {

std::optional<int> small(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional<int>(static_cast<int>(row.integer(column)));
}

SinkCount count_row(const Statement& row) {
  return {row.text(0), outbox_state_of(row.text(1)), row.integer(2), time_of(row.integer(3))};
}

}  // namespace

WatchedRow watched_row(const Statement& row) {
  WatchedRow out;
  out.id = row.integer(0);
  out.name = row.text(1);
  out.generation = bits(row.integer(2));
  out.job = row.text(3);
  out.attempt = static_cast<int>(row.integer(4));
  out.node = row.text(5);
  out.rank = small(row, 6);
  out.local_rank = small(row, 7);
  out.device = bits(row.integer(8));
  out.inode = bits(row.integer(9));
  out.ended = row.integer(10) != 0;
  out.offset = bits(row.integer(11));
  out.lines = bits(row.integer(12));
  out.size = bits(row.integer(13));
  out.check_bytes = static_cast<std::uint32_t>(row.integer(14));
  out.check_hash = bits(row.integer(15));
  out.seen_at = time_of(row.integer(16));
  out.batches = row.text(17);
  out.cursor = row.text(18);
  out.kind = row.text(19);
  out.lost_bytes = bits(row.integer(20));
  return out;
}

SpoolLine spool_row(const Statement& row) { return {bits(row.integer(0)), bits(row.integer(1)), row.text(2)}; }

OutboxItem outbox_row(const Statement& row) {
  OutboxItem out;
  out.id = row.integer(0);
  out.sink = row.text(1);
  out.channel = row.text(2);
  out.incident = row.text(3);
  out.event = row.text(4);
  out.revision = bits(row.integer(5));
  out.body = row.text(6);
  out.not_before = time_of(row.integer(7));
  out.tries = static_cast<int>(row.integer(8));
  out.state = outbox_state_of(row.text(9));
  out.error = row.text(10);
  out.receipt = row.text(11);
  out.created_at = time_of(row.integer(12));
  out.changed_at = time_of(row.integer(13));
  return out;
}

Silence silence_row(const Statement& row) {
  Silence out;
  out.id = row.integer(0);
  out.kind = row.text(1);
  out.job = row.text(2);
  out.node = row.text(3);
  out.fingerprint = row.text(4);
  out.starts_at = time_of(row.integer(5));
  out.ends_at = time_of(row.integer(6));
  out.author = row.text(7);
  out.reason = row.text(8);
  out.created_at = time_of(row.integer(9));
  return out;
}

parsers::Result<std::vector<SinkCount>> read_sink_counts(Connection& connection) {
  TRIAGE_TRY(Statement rows, connection.prepare("SELECT sink, state, count(*), min(created_at) FROM outbox GROUP BY sink, state ORDER BY sink, state"));
  return rows_of(rows, count_row);
}

}  // namespace triage::db
