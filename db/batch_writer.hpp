// The statements of one batch of the service. Lives within its transaction.
#pragma once

#include "db/live_rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

// Checkpoints and spool lines.
class SourceWriter {
 public:
  static parsers::Result<SourceWriter> prepare(Connection& connection);
  // Returns the id of the source.
  parsers::Result<std::int64_t> write(const SourceCommit& commit);

 private:
  SourceWriter(Connection& connection, Statement insert, Statement update, Statement advance, Statement begin, Statement tail, Statement drop,
               Statement spool);
  parsers::Result<std::int64_t> write_new(const WatchedRow& row, std::int64_t id);
  Connection* connection_;
  Statement insert_, update_, advance_, begin_, tail_, drop_, spool_;
};

parsers::Status write_tracked(Connection& connection, const std::vector<TrackedIncident>& tracked);
// Removes those that still wait.
parsers::Status withdraw_outbox(Connection& connection, const std::vector<OutboxKey>& keys);
// Returns the id of each, 0 for one that was there before.
parsers::Result<std::vector<std::int64_t>> write_outbox(Connection& connection, const std::vector<OutboxItem>& items, parsers::TimePoint now);
parsers::Status write_next_runs(Connection& connection, const std::vector<NextRun>& runs);

}  // namespace triage::db
