// What the API asks: read only, through a connection of its own, so that readers never hold up the writer. One thread at a time; each
// answer is one consistent state of the database.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "db/live_rows.hpp"
#include "db/outbox.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

struct FindingRow {
  std::int64_t position = 0;
  std::string rule, role, kind, source;
  std::int64_t version = 0, line = 0, offset = 0, count = 0;
  std::optional<std::int64_t> rank;
};

// Incidents of one kind that were kept in [begin, begin + width).
struct KindCount {
  parsers::TimePoint begin;
  std::string kind;
  std::int64_t incidents = 0;
};

// Something that incidents share: a node, a rank, a cause, a job.
enum class Shared : std::uint8_t { node, rank, fingerprint, kind, job };
struct Recurrence {
  std::string value;                   // node, rank in digits, fingerprint, kind or job
  std::string kind;                    // of the newest incident
  std::int64_t incidents = 0, jobs = 0, causes = 0;   // causes: different fingerprints
  parsers::TimePoint first_at, last_at;
};

struct SourceQuery {
  std::string job;                     // exact, or empty
  std::string name;                    // part of the name, or empty
  bool ended_too = false;
  std::int64_t after = 0;              // id of the last row of the page before
  std::int64_t limit = 100;
};
// row.size - row.offset: bytes known to stand there and not read yet.
struct SourcePage {
  std::vector<WatchedRow> rows;
  std::int64_t next = 0;               // for `after`; 0: this is the last page
};

struct OutboxQuery {
  std::vector<OutboxState> states;     // empty: all
  std::string sink, incident;          // exact, or empty
  std::int64_t before = 0;             // id of the last row of the page before; 0: from the newest on
  std::int64_t limit = 100;
};

struct StoreTotals {
  std::int64_t incidents = 0, open = 0, sources = 0;   // sources: that have not ended
  std::uint64_t bytes = 0, free_bytes = 0;   // of the file
  std::uint64_t lag_bytes = 0;         // over all sources that have not ended
};

class Query {
 public:
  // Errors: not_found (no file), unsupported (another schema), io, syntax.
  static parsers::Result<Query> open(const std::string& path);

  // Errors: syntax when the cursor is none of ours.
  parsers::Result<HistoryPage> incidents(const HistoryQuery& query);
  // By whole id or a unique prefix. Errors: not_found, conflict.
  parsers::Result<Kept> find(const std::string& id_prefix);
  // In order of importance, as the diagnosis lists them.
  parsers::Result<std::vector<FindingRow>> findings(const std::string& incident);
  // By time, then kind. limit and cursor of the query do not count. Errors: limit when the answer would have more than 50,000 rows.
  parsers::Result<std::vector<KindCount>> counts(const HistoryQuery& query, std::chrono::seconds width);
  // Values with at least `least` incidents, most first, at most query.limit.
  parsers::Result<std::vector<Recurrence>> recurring(Shared by, const HistoryQuery& query, std::int64_t least = 2);
  parsers::Result<SourcePage> sources(const SourceQuery& query);
  // The newest generation under that name; empty: nothing of that name is watched.
  parsers::Result<std::optional<WatchedRow>> watched(const std::string& name);
  // Of one generation, by its row's id; in order of the source.
  parsers::Result<std::vector<SpoolLine>> spool(std::int64_t source);
  // Lines of a source that were kept with an incident (its whole id), in order.
  parsers::Result<std::vector<SpoolLine>> excerpt(const std::string& incident, const std::string& source);
  // How often the roots of a node's incidents stand on each GPU, by the newest 500 of the query; those that name none do not count. Most first.
  parsers::Result<std::vector<std::pair<std::int64_t, std::int64_t>>> devices(const HistoryQuery& query);
  // Newest first. Dead letters: states {dead, uncertain}.
  parsers::Result<std::vector<OutboxItem>> outbox(const OutboxQuery& query);
  parsers::Result<std::vector<SinkCount>> sink_counts();
  parsers::Result<std::vector<Silence>> silences(parsers::TimePoint now, bool ended_too, std::int64_t limit = 1000);
  parsers::Result<std::vector<FixRecord>> fix_records(const std::string& fingerprint);
  parsers::Result<StoreTotals> totals();

 private:
  explicit Query(Connection connection) : connection_(std::move(connection)) {}
  Connection connection_;
};

}  // namespace triage::db
