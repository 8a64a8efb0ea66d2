#include "db/retention.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "db/beside.hpp"
#include "db/convert.hpp"

namespace triage::db {

using parsers::Result;
using parsers::Status;
using parsers::TimePoint;

namespace {

constexpr std::int64_t kSpoolLines = 500;      // deleted between two looks at the clock
constexpr std::int64_t kRows = 200;
constexpr std::int64_t kVacuumPages = 64;      // given back between two looks at the clock
constexpr std::int64_t kKeptFreePages = 1024;  // 4 MiB stay for what comes next: giving pages back and asking for them again costs twice
constexpr std::chrono::hours kSilenceAge{30 * 24};   // how long a silence that has ended is still shown

// Of incident i: closed, and nothing of it still has to be told.
constexpr std::string_view kMayGo =
    " FROM incident i LEFT JOIN tracked t ON t.incident = i.id WHERE coalesce(t.closed, 1) = 1 "
    "AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.incident = i.id AND o.state IN ('waiting', 'sending')) ";

struct Old {
  std::string id, job;
  std::int64_t attempt = 0;
};

// One slice: deletes until the time is up.
class Sweep {
 public:
  Sweep(Connection& connection, const Retention::Clock& clock, std::chrono::steady_clock::time_point end, RetentionSlice& slice)
      : connection_(connection), clock_(clock), end_(end), slice_(slice) {}

  Status run(const RetentionLimits& limits, TimePoint now) {
    if (limits.age) TRIAGE_CHECK(by_age(now - *limits.age));
    if (limits.incidents) TRIAGE_CHECK(by_count(*limits.incidents));
    if (limits.bytes) TRIAGE_CHECK(by_size(*limits.bytes));
    if (limits.sources_age) TRIAGE_CHECK(sources(now - *limits.sources_age));
    if (limits.age) TRIAGE_CHECK(alerts(now - *limits.age));
    return silences(now - kSilenceAge);
  }

 private:
  // Never before something was deleted: where finding what is old takes longer than a slice, each slice would end with nothing done.
  bool late() {
    if (clock_() < end_ || !worked_) return false;
    slice_.more = true;
    return true;
  }

  Result<std::vector<Old>> oldest(std::optional<TimePoint> before) {
    std::string sql = "SELECT i.id, i.job, i.attempt" + std::string(kMayGo);
    if (before) sql += "AND i.kept_at < ?1 AND coalesce(t.changed_at, i.kept_at) < ?1 ";
    TRIAGE_TRY(Statement rows, connection_.prepare(sql + "ORDER BY i.kept_at, i.id LIMIT 32"));
    if (before) rows.bind(1, micros(*before));
    std::vector<Old> out;
    for (;;) {
      TRIAGE_TRY(const bool row, rows.step());
      if (!row) return out;
      out.push_back({rows.text(0), rows.text(1), rows.integer(2)});
    }
  }

  Status by_age(TimePoint before) {
    for (;;) {
      TRIAGE_TRY(const std::vector<Old> old, oldest(before));
      if (old.empty()) return parsers::done();
      for (const Old& one : old) {
        if (late()) return parsers::done();
        TRIAGE_CHECK(drop(one));
      }
    }
  }

  Status by_count(std::int64_t allowed) {
    TRIAGE_TRY(Statement count, connection_.prepare("SELECT count(*) FROM incident i LEFT JOIN tracked t ON t.incident = i.id WHERE coalesce(t.closed, 1) = 1"));
    TRIAGE_TRY(const bool row, count.step());
    std::int64_t excess = row ? count.integer(0) - allowed : 0;
    TRIAGE_CHECK(count.run());
    while (excess > 0) {
      TRIAGE_TRY(const std::vector<Old> old, oldest(std::nullopt));
      if (old.empty()) return parsers::done();
      for (const Old& one : old) {
        if (excess <= 0 || late()) return parsers::done();
        TRIAGE_CHECK(drop(one));
        --excess;
      }
    }
    return parsers::done();
  }

  Result<bool> too_large(std::uint64_t allowed) {
    TRIAGE_TRY(const std::int64_t pages, connection_.pragma("page_count"));
    TRIAGE_TRY(const std::int64_t unused, connection_.pragma("freelist_count"));
    TRIAGE_TRY(const std::int64_t size, connection_.pragma("page_size"));
    return bits((pages - unused) * size) > allowed;
  }

  Status by_size(std::uint64_t allowed) {
    for (;;) {
      TRIAGE_TRY(bool large, too_large(allowed));
      if (!large) return parsers::done();
      TRIAGE_TRY(const std::vector<Old> old, oldest(std::nullopt));
      if (old.empty()) {
        slice_.short_of_closed = true;
        return parsers::done();
      }
      for (const Old& one : old) {
        if (!large || late()) return parsers::done();
        TRIAGE_CHECK(drop(one));
        TRIAGE_TRY(large, too_large(allowed));
      }
    }
  }

  // The spool of an attempt goes with its last incident, as far as its sources have ended: a judgement anew would find the incident
  // again and tell it again. First, in portions, so that a slice may end in between.
  Status drop(const Old& one) {
    if (!one.job.empty()) {
      TRIAGE_TRY(Statement spool,
                 connection_.prepare("DELETE FROM spool WHERE (source, offset) IN (SELECT s.source, s.offset FROM watched w JOIN spool s ON s.source = w.id "
                                     "WHERE w.job = ?1 AND w.attempt = ?2 AND w.ended = 1 LIMIT ?3) "
                                     "AND NOT EXISTS (SELECT 1 FROM incident i WHERE i.job = ?1 AND i.attempt = ?2 AND i.id <> ?4)"));
      do {
        if (late()) return parsers::done();
        TRIAGE_CHECK(spool.bind(1, one.job).bind(2, one.attempt).bind(3, kSpoolLines).bind(4, one.id).run());
        worked_ = worked_ || connection_.changes() > 0;
      } while (connection_.changes() == kSpoolLines);
    }
    for (const std::string_view sql :
         {// What a person said of a fix outlives the incident.
          "INSERT INTO fix_outcome(fingerprint, fix, incident, origin, helped, job, attempt, settings, at) "
          "SELECT i.fingerprint, f.fix, f.incident, 'feedback', f.helped, i.job, i.attempt, '', f.said_at FROM feedback f JOIN incident i ON i.id = f.incident "
          "WHERE f.incident = ?1 AND f.fix <> '' ON CONFLICT(fingerprint, fix, incident) DO UPDATE SET origin = 'feedback', helped = excluded.helped, at = excluded.at",
          "DELETE FROM outbox WHERE incident = ?1", "DELETE FROM receipt WHERE incident = ?1", "DELETE FROM incident WHERE id = ?1"}) {
      TRIAGE_TRY(Statement statement, connection_.prepare(sql));
      TRIAGE_CHECK(statement.bind(1, one.id).run());
    }
    ++slice_.incidents;
    worked_ = true;
    return parsers::done();
  }

  // Deletes in portions; returns when nothing is left or the time is up.
  Status portions(std::string_view sql, std::int64_t first, std::int64_t rows, std::int64_t& deleted) {
    TRIAGE_TRY(Statement statement, connection_.prepare(sql));
    for (;;) {
      if (late()) return parsers::done();
      TRIAGE_CHECK(statement.bind(1, first).bind(2, rows).run());
      const std::int64_t count = connection_.changes();
      deleted += count;
      worked_ = worked_ || count > 0;
      if (count < rows) return parsers::done();
    }
  }

  // Their spool first: one source may have very many lines.
  Status sources(TimePoint before) {
    std::int64_t lines = 0;
    TRIAGE_CHECK(portions("DELETE FROM spool WHERE (source, offset) IN (SELECT s.source, s.offset FROM watched w JOIN checkpoint c ON c.source = w.id "
                          "JOIN spool s ON s.source = w.id WHERE w.ended = 1 AND c.seen_at < ?1 AND NOT EXISTS (SELECT 1 FROM tracked t "
                          "WHERE t.job = w.job AND t.closed = 0) LIMIT ?2)",
                          micros(before), kSpoolLines, lines));
    if (slice_.more) return parsers::done();
    return portions("DELETE FROM watched WHERE id IN (SELECT w.id FROM watched w JOIN checkpoint c ON c.source = w.id "
                    "WHERE w.ended = 1 AND c.seen_at < ?1 AND NOT EXISTS (SELECT 1 FROM tracked t WHERE t.job = w.job AND t.closed = 0) LIMIT ?2)",
                    micros(before), kRows, slice_.sources);
  }

  // Those whose incident is not there: tests, and what stayed behind.
  Status alerts(TimePoint before) {
    return portions("DELETE FROM outbox WHERE id IN (SELECT o.id FROM outbox o WHERE o.state IN ('sent', 'dead', 'uncertain') AND o.changed_at < ?1 "
                    "AND NOT EXISTS (SELECT 1 FROM incident i WHERE i.id = o.incident) LIMIT ?2)",
                    micros(before), kRows, slice_.alerts);
  }

  Status silences(TimePoint before) {
    return portions("DELETE FROM silence WHERE id IN (SELECT id FROM silence WHERE ends_at < ?1 LIMIT ?2)", micros(before), kRows, slice_.silences);
  }

  Connection& connection_;
  const Retention::Clock& clock_;
  const std::chrono::steady_clock::time_point end_;
  RetentionSlice& slice_;
  bool worked_ = false;   // something was deleted in this slice
};

}  // namespace

Result<Retention> Retention::open(const std::string& path, Clock clock) {
  TRIAGE_TRY(Connection connection, open_beside(path, 1000));
  // The log is moved by move_log, not at the end of a slice while the writer waits.
  TRIAGE_CHECK(connection.execute("PRAGMA wal_autocheckpoint = 0"));
  return Retention(std::move(connection), std::move(clock));
}

Result<RetentionSlice> Retention::slice(const RetentionLimits& limits, TimePoint now, std::chrono::milliseconds budget) {
  RetentionSlice slice;
  {
    auto begun = Transaction::begin(connection_);
    if (!begun.ok() && begun.error().code() == parsers::ErrorCode::unavailable) {   // others write all the time: it can wait
      slice.more = true;
      return slice;
    }
    TRIAGE_TRY(Transaction transaction, std::move(begun));
    Sweep sweep(connection_, clock_, clock_() + budget, slice);   // the time runs from when the writer is held up
    TRIAGE_CHECK(sweep.run(limits, now));
    TRIAGE_CHECK(transaction.commit());
  }
  if (slice.more) return slice;
  // Each step is a transaction of its own; the writer may come in between.
  const auto end = clock_() + budget;
  TRIAGE_TRY(const std::int64_t vacuum, connection_.pragma("auto_vacuum"));
  if (vacuum == 0) return slice;   // an old, large file of scans: its free pages are used again
  for (;;) {
    TRIAGE_TRY(const std::int64_t unused, connection_.pragma("freelist_count"));
    if (unused <= kKeptFreePages) return slice;
    if (slice.pages > 0 && clock_() >= end) {
      slice.more = true;
      return slice;
    }
    const std::int64_t pages = std::min(kVacuumPages, unused - kKeptFreePages);
    TRIAGE_CHECK(connection_.execute("PRAGMA incremental_vacuum(" + std::to_string(pages) + ")"));
    slice.pages += pages;
  }
}

Status Retention::move_log() { return connection_.execute("PRAGMA wal_checkpoint(PASSIVE)"); }

}  // namespace triage::db
