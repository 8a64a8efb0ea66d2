#include "db/query.hpp"

#include <algorithm>

#include "db/convert.hpp"
#include "db/filter.hpp"
#include "db/incident_rows.hpp"
#include "db/live_readers.hpp"
#include "db/migrate.hpp"

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

constexpr std::int64_t kCountRows = 50'000;
constexpr std::int64_t kPageRows = 10'000;

FindingRow finding_row(const Statement& row) {
  FindingRow out;
  out.position = row.integer(0);
  out.rule = row.text(1);
  out.version = row.integer(2);
  out.role = row.text(3);
  out.kind = row.text(4);
  out.source = row.text(5);
  out.line = row.integer(6);
  out.offset = row.integer(7);
  if (!row.is_null(8)) out.rank = row.integer(8);
  out.count = row.integer(9);
  return out;
}

std::pair<std::int64_t, std::int64_t> pair_row(const Statement& row) { return {row.integer(0), row.integer(1)}; }

KindCount count_row(const Statement& row) { return {time_of(row.integer(0)), row.text(1), row.integer(2)}; }

Recurrence recurrence_row(const Statement& row) {
  return {row.text(0), row.text(1), row.integer(2), row.integer(3), row.integer(4), time_of(row.integer(5)), time_of(row.integer(6))};
}

struct SharedColumn {
  std::string_view column, known;   // known: the rows where it says something
};

SharedColumn shared_column(Shared by) {
  switch (by) {
    case Shared::node: return {"i.node", "i.node <> ''"};
    case Shared::rank: return {"i.rank", "i.rank IS NOT NULL"};
    case Shared::fingerprint: return {"i.fingerprint", "i.fingerprint <> ''"};
    case Shared::kind: return {"i.kind", "i.kind <> ''"};
    case Shared::job: break;
  }
  return {"i.job", "i.job <> ''"};
}

}  // namespace

Result<Query> Query::open(const std::string& path) {
  TRIAGE_TRY(Connection connection, Connection::open(path, Connection::Mode::read_only));
  TRIAGE_CHECK(require_schema(connection));
  return Query(std::move(connection));
}

Result<HistoryPage> Query::incidents(const HistoryQuery& query) { return read_history(connection_, query); }

Result<Kept> Query::find(const std::string& id_prefix) { return find_incident(connection_, id_prefix); }

Result<std::vector<FindingRow>> Query::findings(const std::string& incident) {
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT position, rule, version, role, kind, source, line, offset, rank, count FROM finding "
                                                 "WHERE incident = ?1 ORDER BY position"));
  return rows_of(rows.bind(1, incident), finding_row);
}

Result<std::vector<KindCount>> Query::counts(const HistoryQuery& query, std::chrono::seconds width) {
  if (width < std::chrono::seconds(1)) return Error(ErrorCode::syntax, "a time bucket has at least one second");
  Filter filter = incident_filter(query);
  const std::string step = filter.parameter(std::chrono::microseconds(width).count()), limit = filter.parameter(kCountRows + 1);
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT i.kept_at / " + step + " * " + step +
                                                 " AS begin, i.kind, count(*) FROM incident i LEFT JOIN tracked t ON t.incident = i.id " +
                                                 filter.text() + " GROUP BY begin, i.kind ORDER BY begin, i.kind LIMIT " + limit));
  (void)filter.bind(rows);
  TRIAGE_TRY(std::vector<KindCount> out, rows_of(rows, count_row));
  if (static_cast<std::int64_t>(out.size()) > kCountRows)
    return Error(ErrorCode::limit, "the counts would have more than " + std::to_string(kCountRows) + " rows").help("ask for wider buckets or a shorter time");
  return out;
}

Result<std::vector<Recurrence>> Query::recurring(Shared by, const HistoryQuery& query, std::int64_t least) {
  Filter filter = incident_filter(query);
  const SharedColumn shared = shared_column(by);
  filter.add(shared.known);
  const std::string enough = filter.parameter(least), limit = filter.parameter(std::clamp<std::int64_t>(query.limit, 0, kPageRows));
  // The kind of the newest: the time in front, with leading zeros, makes the greatest text the newest one.
  TRIAGE_TRY(Statement rows,
             connection_.prepare("SELECT " + std::string(shared.column) +
                                 " AS value, substr(max(printf('%020d%s', i.kept_at, i.kind)), 21), count(*), "
                                 "count(DISTINCT i.job || ' ' || i.attempt), count(DISTINCT i.fingerprint), min(i.kept_at), max(i.kept_at) "
                                 "FROM incident i LEFT JOIN tracked t ON t.incident = i.id " +
                                 filter.text() + " GROUP BY value HAVING count(*) >= " + enough + " ORDER BY count(*) DESC, max(i.kept_at) DESC, value LIMIT " + limit));
  (void)filter.bind(rows);
  return rows_of(rows, recurrence_row);
}

Result<SourcePage> Query::sources(const SourceQuery& query) {
  Filter filter;
  filter.add("w.id > @", query.after);
  if (!query.job.empty()) filter.add("w.job = @", query.job);
  if (!query.name.empty()) filter.add("instr(w.name, @) > 0", query.name);
  if (!query.ended_too) filter.add("w.ended = 0");
  const std::int64_t wanted = std::clamp<std::int64_t>(query.limit, 0, kPageRows);
  const std::string limit = filter.parameter(wanted + 1);
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kWatchedColumns) + filter.text() + " ORDER BY w.id LIMIT " + limit));
  (void)filter.bind(rows);
  SourcePage page;
  TRIAGE_TRY(page.rows, rows_of(rows, watched_row));
  if (static_cast<std::int64_t>(page.rows.size()) > wanted) {
    page.rows.resize(static_cast<std::size_t>(wanted));
    if (!page.rows.empty()) page.next = page.rows.back().id;
  }
  return page;
}

Result<std::optional<WatchedRow>> Query::watched(const std::string& name) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kWatchedColumns) + "WHERE w.name = ?1 ORDER BY w.generation DESC LIMIT 1"));
  TRIAGE_TRY(const bool row, rows.bind(1, name).step());
  return row ? std::optional(watched_row(rows)) : std::nullopt;
}

Result<std::vector<SpoolLine>> Query::spool(std::int64_t source) {
  TRIAGE_TRY(Statement rows, connection_.prepare(kSpoolRows));
  return rows_of(rows.bind(1, source), spool_row);
}

Result<std::vector<SpoolLine>> Query::excerpt(const std::string& incident, const std::string& source) {
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT offset, number, text FROM excerpt WHERE incident = ?1 AND source = ?2 ORDER BY offset"));
  return rows_of(rows.bind(1, incident).bind(2, source), spool_row);
}

Result<std::vector<std::pair<std::int64_t, std::int64_t>>> Query::devices(const HistoryQuery& query) {
  const Filter filter = incident_filter(query);
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT json_extract(answer, '$.root.device') AS device, count(*) FROM "
                                                 "(SELECT i.answer AS answer FROM incident i LEFT JOIN tracked t ON t.incident = i.id " +
                                                 filter.text() + " ORDER BY i.kept_at DESC LIMIT 500) WHERE json_valid(answer) GROUP BY device HAVING device IS NOT NULL ORDER BY count(*) DESC, device"));
  (void)filter.bind(rows);
  return rows_of(rows, pair_row);
}

Result<std::vector<OutboxItem>> Query::outbox(const OutboxQuery& query) {
  Filter filter;
  if (query.before != 0) filter.add("o.id < @", query.before);
  if (!query.sink.empty()) filter.add("o.sink = @", query.sink);
  if (!query.incident.empty()) filter.add("o.incident = @", query.incident);
  if (!query.states.empty()) {
    std::string list;
    for (const OutboxState state : query.states) list += (list.empty() ? "" : ", ") + filter.parameter(std::string(outbox_state_name(state)));
    filter.add("o.state IN (" + list + ")");
  }
  const std::string limit = filter.parameter(std::clamp<std::int64_t>(query.limit, 0, kPageRows));
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kOutboxColumns) + filter.text() + " ORDER BY o.id DESC LIMIT " + limit));
  (void)filter.bind(rows);
  return rows_of(rows, outbox_row);
}

Result<std::vector<SinkCount>> Query::sink_counts() { return read_sink_counts(connection_); }

Result<std::vector<Silence>> Query::silences(parsers::TimePoint now, bool ended_too, std::int64_t limit) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kSilenceColumns) +
                                                 "WHERE ?2 OR (ends_at > ?1 AND ends_at > starts_at) ORDER BY id DESC LIMIT ?3"));
  return rows_of(rows.bind(1, micros(now)).bind(2, static_cast<std::int64_t>(ended_too)).bind(3, limit), silence_row);
}

Result<std::vector<FixRecord>> Query::fix_records(const std::string& fingerprint) { return fix_records_of(connection_, fingerprint); }

Result<StoreTotals> Query::totals() {
  StoreTotals out;
  TRIAGE_TRY(Statement rows, connection_.prepare("SELECT (SELECT count(*) FROM incident), (SELECT count(*) FROM tracked WHERE closed = 0), "
                                                 "(SELECT count(*) FROM watched WHERE ended = 0), "
                                                 "(SELECT coalesce(sum(max(c.size - c.offset, 0)), 0) FROM checkpoint c JOIN watched w ON w.id = c.source "
                                                 "WHERE w.ended = 0)"));
  TRIAGE_TRY(const bool row, rows.step());
  if (row) {
    out.incidents = rows.integer(0);
    out.open = rows.integer(1);
    out.sources = rows.integer(2);
    out.lag_bytes = bits(rows.integer(3));
  }
  TRIAGE_TRY(const std::int64_t pages, connection_.pragma("page_count"));
  TRIAGE_TRY(const std::int64_t unused, connection_.pragma("freelist_count"));
  TRIAGE_TRY(const std::int64_t size, connection_.pragma("page_size"));
  out.bytes = bits(pages * size);
  out.free_bytes = bits(unused * size);
  return out;
}

}  // namespace triage::db
