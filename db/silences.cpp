#include "db/silences.hpp"

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

Result<Silences> Silences::open(const std::string& path, int busy_timeout_ms) {
  TRIAGE_TRY(Connection connection, open_beside(path, busy_timeout_ms));
  return Silences(std::move(connection));
}

Result<std::int64_t> Silences::add(const Silence& silence, TimePoint now) {
  if (silence.ends_at <= silence.starts_at || silence.ends_at <= now)
    return Error(ErrorCode::syntax, "the silence ends before it holds").help("give it an end that lies after its start and after now");
  const bool everything = silence.kind.empty() && silence.job.empty() && silence.node.empty() && silence.fingerprint.empty();
  if (everything && silence.reason.empty())
    return Error(ErrorCode::syntax, "the silence holds back every alert and says no reason").help("name a kind, job, node or fingerprint, or give a reason");
  TRIAGE_TRY(Statement put, connection_.prepare("INSERT INTO silence(kind, job, node, fingerprint, starts_at, ends_at, author, reason, created_at) "
                                                "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9) RETURNING id"));
  put.bind(1, silence.kind).bind(2, silence.job).bind(3, silence.node).bind(4, silence.fingerprint).bind(5, micros(silence.starts_at));
  put.bind(6, micros(silence.ends_at)).bind(7, silence.author).bind(8, silence.reason).bind(9, micros(now));
  TRIAGE_TRY(const bool row, put.step());
  const std::int64_t id = row ? put.integer(0) : 0;
  TRIAGE_CHECK(put.run());
  return id;
}

Status Silences::end(std::int64_t id, TimePoint now) {
  TRIAGE_TRY(Statement there, connection_.prepare("SELECT 1 FROM silence WHERE id = ?1"));
  TRIAGE_TRY(const bool row, there.bind(1, id).step());
  if (!row)
    return Error(ErrorCode::not_found, "there is no silence " + std::to_string(id)).at(Place{connection_.path(), {}, {}, {}, {}});
  TRIAGE_CHECK(there.run());
  // One that has not begun ends at its start: it never held.
  TRIAGE_TRY(Statement end, connection_.prepare("UPDATE silence SET ends_at = max(starts_at, ?2) WHERE id = ?1 AND ends_at > ?2"));
  return end.bind(1, id).bind(2, micros(now)).run();
}

Result<std::vector<Silence>> Silences::active(TimePoint now) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kSilenceColumns) + "WHERE ends_at > ?1 AND ends_at > starts_at ORDER BY starts_at, id"));
  return rows_of(rows.bind(1, micros(now)), silence_row);
}

Result<std::vector<Silence>> Silences::all(std::int64_t limit) {
  TRIAGE_TRY(Statement rows, connection_.prepare(std::string(kSilenceColumns) + "ORDER BY id DESC LIMIT ?1"));
  return rows_of(rows.bind(1, limit), silence_row);
}

bool silences(const Silence& silence, const SilenceTarget& target, TimePoint now) {
  if (now < silence.starts_at || now >= silence.ends_at) return false;
  const auto fits = [](const std::string& wanted, std::string_view has) { return wanted.empty() || wanted == has; };
  const bool kind = fits(silence.kind, target.kind) || (target.kind.size() > silence.kind.size() && target.kind.starts_with(silence.kind) &&
                                                        target.kind[silence.kind.size()] == '.');
  return kind && fits(silence.job, target.job) && fits(silence.node, target.node) && fits(silence.fingerprint, target.fingerprint);
}

}  // namespace triage::db
