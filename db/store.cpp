#include "db/store.hpp"

#include "db/migrate.hpp"

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::Status;
using parsers::TimePoint;

namespace {

std::int64_t micros(TimePoint time) { return time.time_since_epoch().count(); }
TimePoint time_of(std::int64_t value) { return TimePoint(std::chrono::microseconds(value)); }
std::int64_t whole(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::optional<std::int64_t> wide(std::optional<int> value) { return value ? std::optional<std::int64_t>(*value) : std::nullopt; }

constexpr std::string_view kHistoryColumns =
    "SELECT i.id, i.fingerprint, i.kind, i.phase, i.summary, i.source, i.job, i.node, i.attempt, i.confidence, i.line, i.rank, "
    "i.step, i.kept_at, i.occurred_at, (SELECT count(*) FROM incident s WHERE s.fingerprint = i.fingerprint), i.answer "
    "FROM incident i ";

HistoryRow history_row(const Statement& row) {
  HistoryRow out;
  out.id = row.text(0);
  out.fingerprint = row.text(1);
  out.kind = row.text(2);
  out.phase = row.text(3);
  out.summary = row.text(4);
  out.source = row.text(5);
  out.job = row.text(6);
  out.node = row.text(7);
  out.attempt = static_cast<int>(row.integer(8));
  out.confidence = row.number(9);
  out.line = row.integer(10);
  if (!row.is_null(11)) out.rank = row.integer(11);
  if (!row.is_null(12)) out.step = row.integer(12);
  out.kept_at = time_of(row.integer(13));
  if (!row.is_null(14)) out.occurred_at = time_of(row.integer(14));
  out.seen = row.integer(15);
  return out;
}

}  // namespace

Result<Store> Store::open(const std::string& path) {
  TRIAGE_TRY(Connection connection, Connection::open(path, Connection::Mode::read_write_create));
  TRIAGE_CHECK(migrate(connection));
  return Store(std::move(connection));
}

Result<Store> Store::open_read_only(const std::string& path) {
  auto connection = Connection::open(path, Connection::Mode::read_only);
  if (!connection.ok()) return std::move(connection).error();
  TRIAGE_TRY(Statement version, connection->prepare("PRAGMA user_version"));
  TRIAGE_TRY(const bool row, version.step());
  if (row && version.integer(0) > schema_version())
    return Error(ErrorCode::unsupported, "the database was written by a newer triage")
        .at(Place{path, {}, {}, {}, {}})
        .because("its schema has version " + std::to_string(version.integer(0)) + ", this program knows " + std::to_string(schema_version()))
        .help("use the newer triage, or give --db another file");
  if (!row || version.integer(0) == 0)
    return Error(ErrorCode::not_found, "no scan has kept anything in the database yet")
        .at(Place{path, {}, {}, {}, {}})
        .help("keep incidents with: triage scan --db FILE PATH...");
  if (version.integer(0) != schema_version())
    return Error(ErrorCode::unsupported, "the database has another schema than this triage")
        .at(Place{path, {}, {}, {}, {}})
        .because("it has version " + std::to_string(row ? version.integer(0) : 0) + ", this program reads " +
                 std::to_string(schema_version()))
        .help("a scan with --db brings an older file to the newest schema");
  return Store(std::move(connection).value());
}

Result<std::int64_t> Store::keep(const std::vector<Keep>& incidents, const std::vector<signatures::SourceInfo>& sources,
                                 const RuleSet& rules, TimePoint now) {
  std::int64_t changed = 0;
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement rule_set, connection_.prepare("INSERT INTO rule_set(hash, version) VALUES(?1, ?2) ON CONFLICT DO NOTHING"));
  TRIAGE_TRY(Statement same, connection_.prepare("SELECT 1 FROM incident WHERE id = ?1 AND answer = ?2"));
  TRIAGE_TRY(Statement source,
             connection_.prepare("INSERT INTO source(name, bytes, lines) VALUES(?1, ?2, ?3) ON CONFLICT(name) DO UPDATE SET "
                                 "bytes = excluded.bytes, lines = excluded.lines WHERE bytes <> excluded.bytes"));
  for (const Keep& incident : incidents) {
    same.bind(1, incident.diagnosis.id).bind(2, incident.answer);
    TRIAGE_TRY(const bool there, same.step());
    TRIAGE_CHECK(same.run());
    if (there) continue;
    TRIAGE_CHECK(rule_set.bind(1, rules.hash).bind(2, rules.version).run());
    TRIAGE_CHECK(put(incident, rules, now));
    ++changed;
  }
  for (const signatures::SourceInfo& info : sources) {
    TRIAGE_CHECK(source.bind(1, info.name).bind(2, whole(info.bytes)).bind(3, whole(info.lines)).run());
    changed += connection_.changes();
  }
  TRIAGE_CHECK(transaction.commit());
  return changed;
}

Status Store::put(const Keep& keep, const RuleSet& rules, TimePoint now) {
  const signatures::Diagnosis& d = keep.diagnosis;
  TRIAGE_TRY(Statement incident,
             connection_.prepare("INSERT INTO incident(id, fingerprint, rule_set, kept_at, occurred_at, job, attempt, kind, backend, "
                                 "phase, confidence, summary, source, line, rank, node, step, answer) "
                                 "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18) "
                                 "ON CONFLICT(id) DO UPDATE SET fingerprint=excluded.fingerprint, rule_set=excluded.rule_set, "
                                 "kind=excluded.kind, backend=excluded.backend, phase=excluded.phase, confidence=excluded.confidence, "
                                 "summary=excluded.summary, rank=excluded.rank, node=excluded.node, step=excluded.step, "
                                 "answer=excluded.answer"));
  incident.bind(1, d.id).bind(2, d.fingerprint).bind(3, rules.hash).bind(4, micros(now));
  if (d.root.time)
    incident.bind(5, micros(*d.root.time));
  else
    incident.bind_null(5);
  incident.bind(6, d.job).bind(7, static_cast<std::int64_t>(d.attempt)).bind(8, d.kind).bind(9, d.backend);
  incident.bind(10, signatures::phase_name(d.phase)).bind(11, d.confidence).bind(12, d.summary).bind(13, d.root.source);
  incident.bind(14, whole(d.root.line)).bind(15, wide(d.root.rank)).bind(16, d.root.node).bind(17, d.root.step).bind(18, keep.answer);
  TRIAGE_CHECK(incident.run());

  for (const std::string_view sql : {"DELETE FROM finding WHERE incident = ?1", "DELETE FROM fix WHERE incident = ?1"}) {
    TRIAGE_TRY(Statement clear, connection_.prepare(sql));
    TRIAGE_CHECK(clear.bind(1, d.id).run());
  }
  TRIAGE_TRY(Statement finding,
             connection_.prepare("INSERT INTO finding(incident, position, rule, version, role, kind, source, line, offset, rank, count) "
                                 "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"));
  for (std::size_t i = 0; i < d.findings.size(); ++i) {
    const signatures::Finding& f = d.findings[i];
    finding.bind(1, d.id).bind(2, whole(i)).bind(3, f.rule).bind(4, static_cast<std::int64_t>(f.version));
    finding.bind(5, signatures::role_name(f.role)).bind(6, f.kind);
    finding.bind(7, i < d.finding_sources.size() ? d.finding_sources[i] : d.root.source);
    finding.bind(8, whole(f.line)).bind(9, whole(f.offset)).bind(10, wide(f.rank)).bind(11, whole(f.count));
    TRIAGE_CHECK(finding.run());
  }
  TRIAGE_TRY(Statement fix, connection_.prepare("INSERT INTO fix(incident, rank, id, title, saving_mid) VALUES(?1,?2,?3,?4,?5)"));
  for (std::size_t i = 0; i < keep.plan.fixes.size(); ++i) {
    const signatures::Fix& f = keep.plan.fixes[i];
    fix.bind(1, d.id).bind(2, whole(i + 1)).bind(3, f.id).bind(4, f.title);
    fix.bind(5, f.saving ? std::optional<std::int64_t>(f.saving->mid.count()) : std::nullopt);
    TRIAGE_CHECK(fix.run());
  }
  return parsers::done();
}

Result<std::vector<HistoryRow>> Store::history(const HistoryQuery& query) {
  TRIAGE_TRY(Statement rows,
             connection_.prepare(std::string(kHistoryColumns) +
                                 "WHERE (?1 = '' OR i.kind = ?1 OR substr(i.kind, 1, length(?1) + 1) = ?1 || '.') "
                                 "AND (?2 = '' OR i.fingerprint = ?2) ORDER BY i.kept_at DESC, i.id LIMIT ?3"));
  rows.bind(1, query.kind).bind(2, query.fingerprint).bind(3, query.limit);
  std::vector<HistoryRow> out;
  for (;;) {
    TRIAGE_TRY(const bool row, rows.step());
    if (!row) break;
    out.push_back(history_row(rows));
  }
  return out;
}

Result<Kept> Store::find(const std::string& id_prefix) {
  const Place place{connection_.path(), {}, {}, {}, {}};
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kHistoryColumns) +
                                                 "WHERE substr(i.id, 1, length(?1)) = ?1 ORDER BY length(i.id), i.id LIMIT 2"));
  rows.bind(1, id_prefix);
  Kept kept;
  TRIAGE_TRY(const bool first, rows.step());
  if (!first || id_prefix.empty())
    return Error(ErrorCode::not_found, "no incident begins with '" + id_prefix + "'").at(place).help("triage history lists the ids");
  kept.row = history_row(rows);
  kept.answer = rows.text(16);
  TRIAGE_TRY(const bool second, rows.step());
  if (second && kept.row.id != id_prefix)
    return Error(ErrorCode::conflict, "several incidents begin with '" + id_prefix + "'").at(place).help("give more of the id");
  TRIAGE_TRY(Statement said, connection_.prepare("SELECT fix, helped, note, said_at FROM feedback WHERE incident = ?1 ORDER BY said_at"));
  said.bind(1, kept.row.id);
  for (;;) {
    TRIAGE_TRY(const bool row, said.step());
    if (!row) break;
    kept.feedback.push_back({said.text(0), said.integer(1) != 0, said.text(2), time_of(said.integer(3))});
  }
  return kept;
}

Status Store::say(const std::string& id, const Feedback& feedback) {
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement put, connection_.prepare("INSERT INTO feedback(incident, said_at, fix, helped, note) VALUES(?1,?2,?3,?4,?5) "
                                                "ON CONFLICT(incident, fix) DO UPDATE SET said_at = excluded.said_at, "
                                                "helped = excluded.helped, note = excluded.note"));
  put.bind(1, id).bind(2, micros(feedback.said_at)).bind(3, feedback.fix).bind(4, static_cast<std::int64_t>(feedback.helped));
  TRIAGE_CHECK(put.bind(5, feedback.note).run());
  return transaction.commit();
}

Result<std::vector<FixRecord>> Store::fix_records(const std::string& fingerprint) {
  TRIAGE_TRY(Statement rows,
             connection_.prepare("SELECT f.fix, sum(f.helped), count(*) FROM feedback f JOIN incident i ON i.id = f.incident "
                                 "WHERE i.fingerprint = ?1 AND f.fix <> '' GROUP BY f.fix ORDER BY sum(f.helped) DESC, f.fix"));
  rows.bind(1, fingerprint);
  std::vector<FixRecord> out;
  for (;;) {
    TRIAGE_TRY(const bool row, rows.step());
    if (!row) break;
    out.push_back({rows.text(0), rows.integer(1), rows.integer(2), {}});
  }
  return out;
}

}  // namespace triage::db
