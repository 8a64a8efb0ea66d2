#include "db/batch_writer.hpp"

#include "db/convert.hpp"

namespace triage::db {

using parsers::Result;
using parsers::Status;

namespace {

// ?1 to ?10 and ?12: what changes seldom; ?11: id, or NULL for a new one.
constexpr std::string_view kInsert =
    "INSERT INTO watched(id, name, generation, job, attempt, node, rank, local_rank, device, inode, ended, kind) "
    "VALUES(?11,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?12) ON CONFLICT(name, generation) DO UPDATE SET job=excluded.job, attempt=excluded.attempt, "
    "node=excluded.node, rank=excluded.rank, local_rank=excluded.local_rank, device=excluded.device, inode=excluded.inode, "
    "ended=excluded.ended, kind=excluded.kind RETURNING id";
constexpr std::string_view kUpdate =
    "UPDATE watched SET name=?1, generation=?2, job=?3, attempt=?4, node=?5, rank=?6, local_rank=?7, device=?8, inode=?9, ended=?10, kind=?12 "
    "WHERE id=?11 AND (ended IS NOT ?10 OR inode IS NOT ?9 OR device IS NOT ?8 OR generation IS NOT ?2 OR job IS NOT ?3 OR "
    "attempt IS NOT ?4 OR node IS NOT ?5 OR rank IS NOT ?6 OR local_rank IS NOT ?7 OR name IS NOT ?1 OR kind IS NOT ?12)";
constexpr std::string_view kAdvance =
    "UPDATE checkpoint SET offset=?2, lines=?3, size=?4, check_bytes=?5, check_hash=?6, seen_at=?7, batches=?8, cursor=?9, lost_bytes=?10 WHERE source=?1";
constexpr std::string_view kBegin =
    "INSERT INTO checkpoint(source, offset, lines, size, check_bytes, check_hash, seen_at, batches, cursor, lost_bytes) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) "
    "ON CONFLICT(source) DO UPDATE SET offset=excluded.offset, lines=excluded.lines, size=excluded.size, check_bytes=excluded.check_bytes, "
    "check_hash=excluded.check_hash, seen_at=excluded.seen_at, batches=excluded.batches, cursor=excluded.cursor, lost_bytes=excluded.lost_bytes";
constexpr std::string_view kTail =
    "INSERT INTO watched_tail(source, bytes) VALUES(?1, ?2) ON CONFLICT(source) DO UPDATE SET bytes=excluded.bytes WHERE bytes <> excluded.bytes";
constexpr std::string_view kDrop = "DELETE FROM spool WHERE source = ?1 AND offset = ?2";
constexpr std::string_view kSpool =
    "INSERT INTO spool(source, offset, number, text) VALUES(?1,?2,?3,?4) "
    "ON CONFLICT(source, offset) DO UPDATE SET number=excluded.number, text=excluded.text";

void bind_watched(Statement& statement, const WatchedRow& row) {
  statement.bind(1, row.name).bind(2, whole(row.generation)).bind(3, row.job).bind(4, static_cast<std::int64_t>(row.attempt));
  statement.bind(5, row.node).bind(6, wide(row.rank)).bind(7, wide(row.local_rank)).bind(8, whole(row.device)).bind(9, whole(row.inode));
  statement.bind(10, static_cast<std::int64_t>(row.ended)).bind(12, row.kind);
}

void bind_checkpoint(Statement& statement, const WatchedRow& row, std::int64_t id) {
  statement.bind(1, id).bind(2, whole(row.offset)).bind(3, whole(row.lines)).bind(4, whole(row.size));
  statement.bind(5, static_cast<std::int64_t>(row.check_bytes)).bind(6, whole(row.check_hash)).bind(7, micros(row.seen_at));
  statement.bind(8, row.batches).bind(9, row.cursor).bind(10, whole(row.lost_bytes));
}

}  // namespace

SourceWriter::SourceWriter(Connection& connection, Statement insert, Statement update, Statement advance, Statement begin, Statement tail,
                           Statement drop, Statement spool)
    : connection_(&connection),
      insert_(std::move(insert)),
      update_(std::move(update)),
      advance_(std::move(advance)),
      begin_(std::move(begin)),
      tail_(std::move(tail)),
      drop_(std::move(drop)),
      spool_(std::move(spool)) {}

Result<SourceWriter> SourceWriter::prepare(Connection& connection) {
  TRIAGE_TRY(Statement insert, connection.prepare(kInsert));
  TRIAGE_TRY(Statement update, connection.prepare(kUpdate));
  TRIAGE_TRY(Statement advance, connection.prepare(kAdvance));
  TRIAGE_TRY(Statement begin, connection.prepare(kBegin));
  TRIAGE_TRY(Statement tail, connection.prepare(kTail));
  TRIAGE_TRY(Statement drop, connection.prepare(kDrop));
  TRIAGE_TRY(Statement spool, connection.prepare(kSpool));
  return SourceWriter(connection, std::move(insert), std::move(update), std::move(advance), std::move(begin), std::move(tail), std::move(drop),
                      std::move(spool));
}

Result<std::int64_t> SourceWriter::write_new(const WatchedRow& row, std::int64_t id) {
  bind_watched(insert_, row);
  insert_.bind(11, id != 0 ? std::optional<std::int64_t>(id) : std::nullopt);
  TRIAGE_TRY(const bool there, insert_.step());
  const std::int64_t given = there ? insert_.integer(0) : 0;
  TRIAGE_CHECK(insert_.run());
  bind_checkpoint(begin_, row, given);
  TRIAGE_CHECK(begin_.run());
  return given;
}

Result<std::int64_t> SourceWriter::write(const SourceCommit& commit) {
  const WatchedRow& row = commit.row;
  std::int64_t id = row.id;
  if (id != 0) {
    bind_watched(update_, row);
    TRIAGE_CHECK(update_.bind(11, id).run());
    bind_checkpoint(advance_, row, id);
    TRIAGE_CHECK(advance_.run());
    if (connection_->changes() == 0) id = 0;   // forgotten meanwhile
  }
  if (id == 0) {
    TRIAGE_TRY(id, write_new(row, row.id));
  }
  if (row.tail) TRIAGE_CHECK(tail_.bind(1, id).bind_bytes(2, *row.tail).run());
  for (const std::uint64_t offset : commit.dropped) TRIAGE_CHECK(drop_.bind(1, id).bind(2, whole(offset)).run());
  for (const SpoolLine& line : commit.spool)
    TRIAGE_CHECK(spool_.bind(1, id).bind(2, whole(line.offset)).bind(3, whole(line.number)).bind(4, line.text).run());
  return id;
}

Status write_tracked(Connection& connection, const std::vector<TrackedIncident>& tracked) {
  if (tracked.empty()) return parsers::done();
  TRIAGE_TRY(Statement put,
             connection.prepare("INSERT INTO tracked(incident, job, attempt, closed, opened_at, changed_at, revision) "
                                "SELECT ?1,?2,?3,?4,?5,?6,?7 WHERE EXISTS (SELECT 1 FROM incident WHERE id = ?1) "
                                "ON CONFLICT(incident) DO UPDATE SET job=excluded.job, attempt=excluded.attempt, closed=excluded.closed, "
                                "opened_at=excluded.opened_at, changed_at=excluded.changed_at, revision=excluded.revision"));
  for (const TrackedIncident& one : tracked) {
    put.bind(1, one.id).bind(2, one.job).bind(3, static_cast<std::int64_t>(one.attempt)).bind(4, static_cast<std::int64_t>(one.closed));
    TRIAGE_CHECK(put.bind(5, micros(one.opened_at)).bind(6, micros(one.changed_at)).bind(7, whole(one.revision)).run());
  }
  return parsers::done();
}

Status withdraw_outbox(Connection& connection, const std::vector<OutboxKey>& keys) {
  if (keys.empty()) return parsers::done();
  TRIAGE_TRY(Statement drop, connection.prepare("DELETE FROM outbox WHERE sink = ?1 AND incident = ?2 AND event = ?3 AND revision = ?4 AND state = 'waiting'"));
  for (const OutboxKey& key : keys) TRIAGE_CHECK(drop.bind(1, key.sink).bind(2, key.incident).bind(3, key.event).bind(4, whole(key.revision)).run());
  return parsers::done();
}

Result<std::vector<std::int64_t>> write_outbox(Connection& connection, const std::vector<OutboxItem>& items, parsers::TimePoint now) {
  std::vector<std::int64_t> ids;
  if (items.empty()) return ids;
  TRIAGE_TRY(Statement put,
             connection.prepare("INSERT INTO outbox(sink, channel, incident, event, revision, body, not_before, tries, state, error, receipt, "
                                "created_at, changed_at) VALUES(?1,?2,?3,?4,?5,?6,?7,0,'waiting','','',?8,?8) "
                                "ON CONFLICT(sink, incident, event, revision) DO NOTHING RETURNING id"));
  for (const OutboxItem& item : items) {
    put.bind(1, item.sink).bind(2, item.channel).bind(3, item.incident).bind(4, item.event).bind(5, whole(item.revision));
    put.bind(6, item.body).bind(7, micros(item.not_before)).bind(8, micros(now));
    TRIAGE_TRY(const bool there, put.step());
    ids.push_back(there ? put.integer(0) : 0);
    TRIAGE_CHECK(put.run());
  }
  return ids;
}

Status write_next_runs(Connection& connection, const std::vector<NextRun>& runs) {
  if (runs.empty()) return parsers::done();
  TRIAGE_TRY(Statement put,
             connection.prepare("INSERT INTO fix_outcome(fingerprint, fix, incident, origin, helped, job, attempt, settings, at) "
                                "VALUES(?1,?2,?3,'next_run',?4,?5,?6,?7,?8) ON CONFLICT(fingerprint, fix, incident) DO UPDATE SET "
                                "helped=excluded.helped, job=excluded.job, attempt=excluded.attempt, settings=excluded.settings, "
                                "at=excluded.at WHERE origin = 'next_run'"));
  for (const NextRun& run : runs) {
    const std::vector<std::string> nameless{""};
    for (const std::string& fix : run.fixes.empty() ? nameless : run.fixes) {
      put.bind(1, run.fingerprint).bind(2, fix).bind(3, run.incident).bind(4, static_cast<std::int64_t>(run.helped)).bind(5, run.job);
      TRIAGE_CHECK(put.bind(6, static_cast<std::int64_t>(run.attempt)).bind(7, run.settings).bind(8, micros(run.at)).run());
    }
  }
  return parsers::done();
}

}  // namespace triage::db
