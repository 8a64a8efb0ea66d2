// Rows of the service's tables to values, shared by those who read them.
#pragma once

#include <string_view>
#include <vector>

#include "db/live_rows.hpp"
#include "db/outbox.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

// Columns of watched w JOIN checkpoint c, and the row of them.
inline constexpr std::string_view kWatchedColumns =
    "SELECT w.id, w.name, w.generation, w.job, w.attempt, w.node, w.rank, w.local_rank, w.device, w.inode, w.ended, c.offset, c.lines, "
    "c.size, c.check_bytes, c.check_hash, c.seen_at, c.batches, c.cursor, w.kind, c.lost_bytes FROM watched w JOIN checkpoint c ON c.source = w.id ";
WatchedRow watched_row(const Statement& row);

// Of one source (?1).
inline constexpr std::string_view kSpoolRows = "SELECT offset, number, text FROM spool WHERE source = ?1 ORDER BY offset";
SpoolLine spool_row(const Statement& row);

inline constexpr std::string_view kOutboxColumns =
    "SELECT o.id, o.sink, o.channel, o.incident, o.event, o.revision, o.body, o.not_before, o.tries, o.state, o.error, o.receipt, "
    "o.created_at, o.changed_at FROM outbox o ";
OutboxItem outbox_row(const Statement& row);

inline constexpr std::string_view kSilenceColumns =
    "SELECT id, kind, job, node, fingerprint, starts_at, ends_at, author, reason, created_at FROM silence ";
Silence silence_row(const Statement& row);

parsers::Result<std::vector<SinkCount>> read_sink_counts(Connection& connection);

// All rows of a statement, each made by `make`.
template <class Row>
parsers::Result<std::vector<Row>> rows_of(Statement& statement, Row (*make)(const Statement&)) {
  std::vector<Row> out;
  for (;;) {
    TRIAGE_TRY(const bool row, statement.step());
    if (!row) return out;
    out.push_back(make(statement));
  }
}

}  // namespace triage::db
