#include "db/store.hpp"

#include "db/convert.hpp"
#include "db/incident_rows.hpp"
#include "db/migrate.hpp"

namespace triage::db {

using parsers::Result;
using parsers::Status;
using parsers::TimePoint;

Result<Store> Store::open(const std::string& path) {
  TRIAGE_TRY(Connection connection, Connection::open(path, Connection::Mode::read_write_create));
  TRIAGE_CHECK(migrate(connection));
  return Store(std::move(connection));
}

Result<Store> Store::open_read_only(const std::string& path) {
  TRIAGE_TRY(Connection connection, Connection::open(path, Connection::Mode::read_only));
  TRIAGE_CHECK(require_schema(connection));
  return Store(std::move(connection));
}

Result<std::int64_t> Store::keep(const std::vector<Keep>& incidents, const std::vector<signatures::SourceInfo>& sources,
                                 const RuleSet& rules, TimePoint now) {
  std::int64_t changed = 0;
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  for (const Keep& incident : incidents) {
    TRIAGE_TRY(const bool written, write_incident(connection_, incident, rules, now));
    changed += written ? 1 : 0;
  }
  TRIAGE_TRY(Statement source,
             connection_.prepare("INSERT INTO source(name, bytes, lines) VALUES(?1, ?2, ?3) ON CONFLICT(name) DO UPDATE SET "
                                 "bytes = excluded.bytes, lines = excluded.lines WHERE bytes <> excluded.bytes"));
  for (const signatures::SourceInfo& info : sources) {
    TRIAGE_CHECK(source.bind(1, info.name).bind(2, whole(info.bytes)).bind(3, whole(info.lines)).run());
    changed += connection_.changes();
  }
  TRIAGE_CHECK(transaction.commit());
  return changed;
}

Status Store::keep_excerpts(const std::string& incident, const std::vector<Excerpt>& excerpts) {
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement drop, connection_.prepare("DELETE FROM excerpt WHERE incident = ?1"));
  TRIAGE_CHECK(drop.bind(1, incident).run());
  TRIAGE_TRY(Statement put, connection_.prepare("INSERT OR IGNORE INTO excerpt(incident, source, offset, number, text) VALUES(?1, ?2, ?3, ?4, ?5)"));
  for (const Excerpt& excerpt : excerpts)
    for (const parsers::SpoolLine& line : excerpt.lines) {
      put.bind(1, incident).bind(2, excerpt.source).bind(3, whole(line.offset)).bind(4, whole(line.number));
      TRIAGE_CHECK(put.bind(5, line.text).run());
    }
  return transaction.commit();
}

Result<std::vector<HistoryRow>> Store::history(const HistoryQuery& query) {
  TRIAGE_TRY(HistoryPage page, read_history(connection_, query));
  return std::move(page.rows);
}

Result<Kept> Store::find(const std::string& id_prefix) { return find_incident(connection_, id_prefix); }

Status Store::say(const std::string& id, const Feedback& feedback) {
  TRIAGE_TRY(Transaction transaction, Transaction::begin(connection_));
  TRIAGE_TRY(Statement put, connection_.prepare("INSERT INTO feedback(incident, said_at, fix, helped, note) VALUES(?1,?2,?3,?4,?5) "
                                                "ON CONFLICT(incident, fix) DO UPDATE SET said_at = excluded.said_at, "
                                                "helped = excluded.helped, note = excluded.note"));
  put.bind(1, id).bind(2, micros(feedback.said_at)).bind(3, feedback.fix).bind(4, static_cast<std::int64_t>(feedback.helped));
  TRIAGE_CHECK(put.bind(5, feedback.note).run());
  return transaction.commit();
}

Result<std::vector<FixRecord>> Store::fix_records(const std::string& fingerprint) { return fix_records_of(connection_, fingerprint); }

}  // namespace triage::db
