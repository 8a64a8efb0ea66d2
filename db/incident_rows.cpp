#include "db/incident_rows.hpp"

#include <algorithm>
#include <charconv>

#include "db/convert.hpp"
#include "db/filter.hpp"

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::Status;
using parsers::TimePoint;

std::string_view incident_state_name(IncidentState state) {
  return state == IncidentState::open ? "open" : state == IncidentState::closed ? "closed" : "kept";
}

namespace {

constexpr std::string_view kHistoryColumns =
    "SELECT i.id, i.fingerprint, i.kind, i.phase, i.summary, i.source, i.job, i.node, i.attempt, i.confidence, i.line, i.rank, "
    "i.step, i.kept_at, i.occurred_at, (SELECT count(*) FROM incident s WHERE s.fingerprint = i.fingerprint), "
    "t.closed, t.opened_at, t.changed_at, t.revision ";
constexpr std::string_view kIncidents = " FROM incident i LEFT JOIN tracked t ON t.incident = i.id ";
constexpr int kHistoryColumnCount = 20;
constexpr std::int64_t kHistoryLimit = 100'000;   // rows of one page

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
  if (!row.is_null(16)) {
    out.state = row.integer(16) != 0 ? IncidentState::closed : IncidentState::open;
    out.opened_at = time_of(row.integer(17));
    out.changed_at = time_of(row.integer(18));
    out.revision = bits(row.integer(19));
  }
  return out;
}

// "<micros>.<id>"
struct Cursor {
  std::int64_t kept_at = 0;
  std::string id;
};

Result<Cursor> read_cursor(const std::string& text) {
  Cursor out;
  const char* end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, out.kept_at);
  if (code != std::errc() || at == end || *at != '.' || at + 1 == end)
    return Error(ErrorCode::syntax, "the cursor is none that a page named").help("take `next` of the page before, or leave it out for the first page");
  out.id.assign(at + 1, end);
  return out;
}

Status put(Connection& connection, const Keep& keep, const RuleSet& rules, TimePoint now) {
  const signatures::Diagnosis& d = keep.diagnosis;
  TRIAGE_TRY(Statement incident,
             connection.prepare("INSERT INTO incident(id, fingerprint, rule_set, kept_at, occurred_at, job, attempt, kind, backend, "
                                "phase, confidence, summary, source, line, rank, node, step, answer) "
                                "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18) "
                                "ON CONFLICT(id) DO UPDATE SET fingerprint=excluded.fingerprint, rule_set=excluded.rule_set, "
                                "occurred_at=excluded.occurred_at, job=excluded.job, attempt=excluded.attempt, kind=excluded.kind, "
                                "backend=excluded.backend, phase=excluded.phase, confidence=excluded.confidence, "
                                "summary=excluded.summary, source=excluded.source, line=excluded.line, rank=excluded.rank, "
                                "node=excluded.node, step=excluded.step, answer=excluded.answer"));
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
    TRIAGE_TRY(Statement clear, connection.prepare(sql));
    TRIAGE_CHECK(clear.bind(1, d.id).run());
  }
  TRIAGE_TRY(Statement finding,
             connection.prepare("INSERT INTO finding(incident, position, rule, version, role, kind, source, line, offset, rank, count) "
                                "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"));
  for (std::size_t i = 0; i < d.findings.size(); ++i) {
    const signatures::Finding& f = d.findings[i];
    finding.bind(1, d.id).bind(2, whole(i)).bind(3, f.rule).bind(4, static_cast<std::int64_t>(f.version));
    finding.bind(5, signatures::role_name(f.role)).bind(6, f.kind);
    finding.bind(7, i < d.finding_sources.size() ? d.finding_sources[i] : d.root.source);
    finding.bind(8, whole(f.line)).bind(9, whole(f.offset)).bind(10, wide(f.rank)).bind(11, whole(f.count));
    TRIAGE_CHECK(finding.run());
  }
  TRIAGE_TRY(Statement fix, connection.prepare("INSERT INTO fix(incident, rank, id, title, saving_mid) VALUES(?1,?2,?3,?4,?5)"));
  for (std::size_t i = 0; i < keep.plan.fixes.size(); ++i) {
    const signatures::Fix& f = keep.plan.fixes[i];
    fix.bind(1, d.id).bind(2, whole(i + 1)).bind(3, f.id).bind(4, f.title);
    fix.bind(5, f.saving ? std::optional<std::int64_t>(f.saving->mid.count()) : std::nullopt);
    TRIAGE_CHECK(fix.run());
  }
  return parsers::done();
}

}  // namespace

std::string history_cursor(TimePoint kept_at, const std::string& id) { return std::to_string(micros(kept_at)) + "." + id; }

Result<bool> write_incident(Connection& connection, const Keep& keep, const RuleSet& rules, TimePoint now) {
  TRIAGE_TRY(Statement same, connection.prepare("SELECT 1 FROM incident WHERE id = ?1 AND answer = ?2"));
  TRIAGE_TRY(const bool there, same.bind(1, keep.diagnosis.id).bind(2, keep.answer).step());
  if (there) return false;
  TRIAGE_TRY(Statement rule_set, connection.prepare("INSERT INTO rule_set(hash, version) VALUES(?1, ?2) ON CONFLICT DO NOTHING"));
  TRIAGE_CHECK(rule_set.bind(1, rules.hash).bind(2, rules.version).run());
  TRIAGE_CHECK(put(connection, keep, rules, now));
  return true;
}

Result<HistoryPage> read_history(Connection& connection, const HistoryQuery& query) {
  Filter filter = incident_filter(query);
  if (!query.cursor.empty()) {
    TRIAGE_TRY(const Cursor cursor, read_cursor(query.cursor));
    const std::string at = filter.parameter(cursor.kept_at), id = filter.parameter(cursor.id);
    filter.add("i.kept_at <= " + at);   // by the index; the rest sorts out what was kept at the same time
    filter.add("(i.kept_at < " + at + " OR i.id > " + id + ")");
  }
  const std::int64_t limit = std::clamp<std::int64_t>(query.limit, 0, kHistoryLimit);
  const std::string more = filter.parameter(limit + 1);
  TRIAGE_TRY(Statement rows, connection.prepare(std::string(kHistoryColumns) + std::string(kIncidents) + filter.text() +
                                                " ORDER BY i.kept_at DESC, i.id LIMIT " + more));
  (void)filter.bind(rows);
  HistoryPage page;
  for (;;) {
    TRIAGE_TRY(const bool row, rows.step());
    if (!row) break;
    if (static_cast<std::int64_t>(page.rows.size()) == limit) {
      if (!page.rows.empty()) page.next = history_cursor(page.rows.back().kept_at, page.rows.back().id);
      break;
    }
    page.rows.push_back(history_row(rows));
  }
  return page;
}

Result<Kept> find_incident(Connection& connection, const std::string& id_prefix) {
  const Place place{connection.path(), {}, {}, {}, {}};
  // The largest character of UTF-8 ends the range of ids that begin so.
  TRIAGE_TRY(Statement rows, connection.prepare(std::string(kHistoryColumns) + ", i.answer" + std::string(kIncidents) +
                                                "WHERE i.id >= ?1 AND i.id <= ?1 || char(1114111) AND substr(i.id, 1, length(?1)) = ?1 "
                                                "ORDER BY length(i.id), i.id LIMIT 2"));
  rows.bind(1, id_prefix);
  Kept kept;
  TRIAGE_TRY(const bool first, rows.step());
  if (!first || id_prefix.empty())
    return Error(ErrorCode::not_found, "no incident begins with '" + id_prefix + "'").at(place).help("triage history lists the ids");
  kept.row = history_row(rows);
  kept.answer = rows.text(kHistoryColumnCount);
  TRIAGE_TRY(const bool second, rows.step());
  if (second && kept.row.id != id_prefix)
    return Error(ErrorCode::conflict, "several incidents begin with '" + id_prefix + "'").at(place).help("give more of the id");
  TRIAGE_TRY(Statement said, connection.prepare("SELECT fix, helped, note, said_at FROM feedback WHERE incident = ?1 ORDER BY said_at"));
  said.bind(1, kept.row.id);
  for (;;) {
    TRIAGE_TRY(const bool row, said.step());
    if (!row) break;
    kept.feedback.push_back({said.text(0), said.integer(1) != 0, said.text(2), time_of(said.integer(3))});
  }
  return kept;
}

Result<std::map<std::string, std::vector<FixRecord>>> read_fix_records(Connection& connection, const std::string& fingerprint) {
  TRIAGE_TRY(Statement rows,
             connection.prepare(
                 "WITH outcome AS ("
                 "SELECT i.fingerprint AS cause, f.fix AS fix, '' AS settings, f.helped AS helped "
                 "FROM feedback f JOIN incident i ON i.id = f.incident WHERE f.fix <> '' AND (?1 = '' OR i.fingerprint = ?1) "
                 "UNION ALL "
                 "SELECT o.fingerprint, o.fix, iif(o.fix = '', o.settings, ''), o.helped FROM fix_outcome o "
                 "WHERE (?1 = '' OR o.fingerprint = ?1) "
                 "AND NOT EXISTS (SELECT 1 FROM feedback s WHERE s.incident = o.incident AND s.fix = o.fix AND s.fix <> '')) "
                 "SELECT cause, fix, settings, sum(helped), count(*) FROM outcome GROUP BY cause, fix, settings "
                 "ORDER BY cause, sum(helped) DESC, fix, settings"));
  rows.bind(1, fingerprint);
  std::map<std::string, std::vector<FixRecord>> out;
  for (;;) {
    TRIAGE_TRY(const bool row, rows.step());
    if (!row) break;
    out[rows.text(0)].push_back({rows.text(1), rows.integer(3), rows.integer(4), rows.text(2)});
  }
  return out;
}

Result<std::vector<FixRecord>> fix_records_of(Connection& connection, const std::string& fingerprint) {
  if (fingerprint.empty()) return std::vector<FixRecord>{};
  TRIAGE_TRY(auto all, read_fix_records(connection, fingerprint));
  return std::move(all[fingerprint]);
}

}  // namespace triage::db
