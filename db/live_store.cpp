#include "db/live_store.hpp"

#include <ctime>
#include <filesystem>

#include "db/batch_writer.hpp"
#include "db/beside.hpp"
#include "db/convert.hpp"
#include "db/incident_rows.hpp"
#include "db/live_readers.hpp"
#include "db/migrate.hpp"

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::Status;

namespace {

TrackedIncident tracked_row(const Statement& row) {
  TrackedIncident out;
  out.id = row.text(0);
  out.job = row.text(1);
  out.attempt = static_cast<int>(row.integer(2));
  out.closed = row.integer(3) != 0;
  out.opened_at = time_of(row.integer(4));
  out.changed_at = time_of(row.integer(5));
  out.revision = bits(row.integer(6));
  return out;
}

constexpr std::string_view kTrackedColumns = "SELECT incident, job, attempt, closed, opened_at, changed_at, revision FROM tracked ";

// A file that offline scans made cannot give pages back. Made anew once, while it is small; a larger one keeps its size and uses
// its free pages again.
constexpr std::int64_t kVacuumPages = 64 * 1024;

Result<Connection> open_newest(const std::string& path, int busy_timeout_ms) {
  TRIAGE_TRY(Connection connection, Connection::open(path, Connection::Mode::read_write_create, busy_timeout_ms));
  TRIAGE_CHECK(migrate(connection));
  TRIAGE_TRY(const std::int64_t vacuum, connection.pragma("auto_vacuum"));
  TRIAGE_TRY(const std::int64_t pages, connection.pragma("page_count"));
  if (vacuum == 0 && pages <= kVacuumPages) (void)connection.execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;");   // works without, too
  TRIAGE_CHECK(connection.execute(std::string(kLogPragmas)));
  return connection;
}

std::string stamp(parsers::TimePoint now) {
  const auto value = static_cast<std::time_t>(micros(now) / 1'000'000);
  std::tm parts{};
  gmtime_r(&value, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts));
}

}  // namespace

Result<std::string> move_aside(const std::string& path, parsers::TimePoint now) {
  std::error_code code;
  const std::string wanted = path + ".damaged-" + stamp(now);
  std::string to = wanted;
  for (int i = 2; std::filesystem::exists(to, code) && i < 1000; ++i) to = wanted + "-" + std::to_string(i);
  std::filesystem::rename(path, to, code);
  if (code)
    return Error(ErrorCode::io, "the damaged database could not be moved aside")
        .at(Place{path, {}, {}, {}, {}})
        .because(code.message())
        .help("move it by hand, together with the files that end in -wal and -shm");
  for (const char* suffix : {"-wal", "-shm"}) {
    if (!std::filesystem::exists(path + suffix, code)) continue;
    std::filesystem::rename(path + suffix, to + suffix, code);
    // Left behind, it would be read as part of the new file.
    if (code)
      return Error(ErrorCode::io, "a file of the damaged database could not be moved aside")
          .at(Place{path + suffix, {}, {}, {}, {}})
          .because(code.message())
          .help("move it by hand");
  }
  return to;
}

Result<LiveStore> LiveStore::open(const std::string& path, const LiveOptions& options) {
  auto connection = open_newest(path, options.busy_timeout_ms);
  std::string moved;
  if (!connection.ok() && connection.error().code() == ErrorCode::syntax && options.move_damaged_aside) {
    TRIAGE_TRY(moved, move_aside(path, options.now));
    connection = open_newest(path, options.busy_timeout_ms);
  }
  if (!connection.ok()) return std::move(connection).error();
  LiveStore store(std::move(connection).value());
  store.moved_aside_ = std::move(moved);
  return store;
}

Status LiveStore::commit(LiveBatch& batch) {
  if (batch.flush) TRIAGE_CHECK(connection_.execute("PRAGMA synchronous = FULL"));
  std::vector<std::int64_t> sources, outbox;
  const Status written = [&]() -> Status {
    TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
    TRIAGE_TRY(SourceWriter writer, SourceWriter::prepare(connection_));
    sources.reserve(batch.sources.size());
    for (const SourceCommit& source : batch.sources) {
      TRIAGE_TRY(const std::int64_t id, writer.write(source));
      sources.push_back(id);
    }
    for (const Keep& incident : batch.incidents) TRIAGE_CHECK(write_incident(connection_, incident, batch.rules, batch.now));
    TRIAGE_CHECK(write_tracked(connection_, batch.tracked));
    TRIAGE_CHECK(withdraw_outbox(connection_, batch.withdraw));
    TRIAGE_TRY(outbox, write_outbox(connection_, batch.outbox, batch.now));
    TRIAGE_CHECK(write_next_runs(connection_, batch.next_runs));
    return transaction.commit();
  }();
  if (batch.flush) (void)connection_.execute("PRAGMA synchronous = NORMAL");
  TRIAGE_CHECK(written);
  for (std::size_t i = 0; i < sources.size(); ++i) batch.sources[i].row.id = sources[i];
  for (std::size_t i = 0; i < outbox.size(); ++i) batch.outbox[i].id = outbox[i];
  return parsers::done();
}

Result<std::vector<WatchedRow>> LiveStore::watched() {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kWatchedColumns) + "ORDER BY w.name, w.generation"));
  return rows_of(rows, watched_row);
}

Result<std::vector<WatchedRow>> LiveStore::watched_of(const std::string& job) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kWatchedColumns) + "WHERE w.job = ?1 ORDER BY w.name, w.generation"));
  return rows_of(rows.bind(1, job), watched_row);
}

Result<std::string> LiveStore::tail(std::int64_t source) {
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT bytes FROM watched_tail WHERE source = ?1"));
  TRIAGE_TRY(const bool row, rows.bind(1, source).step());
  return row ? rows.text(0) : std::string();
}

Result<std::vector<SpoolLine>> LiveStore::spool(std::int64_t source) {
  TRIAGE_TRY(Statement rows, connection_.prepare(kSpoolRows));
  return rows_of(rows.bind(1, source), spool_row);
}

namespace {

Status for_each(Connection& connection, std::string_view sql, const std::vector<std::int64_t>& ids) {
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection));
  TRIAGE_TRY(Statement statement, connection.prepare(sql));
  for (const std::int64_t id : ids) TRIAGE_CHECK(statement.bind(1, id).run());
  return transaction.commit();
}

}  // namespace

Status LiveStore::forget(const std::vector<std::int64_t>& sources) { return for_each(connection_, "DELETE FROM watched WHERE id = ?1", sources); }

Status LiveStore::drop_spool(const std::vector<std::int64_t>& sources) {
  return for_each(connection_, "DELETE FROM spool WHERE source = ?1", sources);
}

Result<std::vector<TrackedIncident>> LiveStore::tracked_open() {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kTrackedColumns) + "WHERE closed = 0 ORDER BY opened_at, incident"));
  return rows_of(rows, tracked_row);
}

Result<std::vector<TrackedIncident>> LiveStore::tracked_of(const std::string& job) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kTrackedColumns) + "WHERE job = ?1 ORDER BY attempt DESC, opened_at DESC, incident"));
  return rows_of(rows.bind(1, job), tracked_row);
}

Result<bool> LiveStore::followed(const std::string& incident) {
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT 1 FROM fix_outcome WHERE incident = ?1 AND origin = 'next_run' LIMIT 1"));
  return rows.bind(1, incident).step();
}

Result<Kept> LiveStore::find(const std::string& id_prefix) { return find_incident(connection_, id_prefix); }

Result<std::vector<FixRecord>> LiveStore::fix_records(const std::string& fingerprint) { return fix_records_of(connection_, fingerprint); }

Result<std::map<std::string, std::vector<FixRecord>>> LiveStore::all_fix_records() { return read_fix_records(connection_, {}); }

Status LiveStore::check() {
  TRIAGE_TRY(Statement rows, connection_.prepare("PRAGMA integrity_check(1)"));
  TRIAGE_TRY(const bool row, rows.step());
  if (row && rows.text(0) == "ok") return parsers::done();
  return Error(ErrorCode::syntax, "the database is damaged")
      .at(Place{connection_.path(), {}, {}, {}, {}})
      .because(row ? rows.text(0) : "its check gave no answer")
      .help("move it away, and a new one is made; what it holds can mostly be read with: sqlite3 FILE .recover");
}

}  // namespace triage::db
