// The service's writer: checkpoints, spool lines, incidents and what has to be told, in one transaction. One thread at a time; other
// threads read through db/query.hpp and send through db/outbox.hpp, each with a connection of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "db/live_rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

struct LiveOptions {
  int busy_timeout_ms = 5000;          // how long a commit waits for another process before it fails with unavailable
  bool move_damaged_aside = false;     // a damaged file is renamed and a new one is begun; else open fails with syntax
  parsers::TimePoint now;              // names the file that is moved aside
};

class LiveStore {
 public:
  // Opens or makes the file and brings it to the newest schema. Errors: io (path, permission, read-only, full disk), unavailable (held
  // by another process), syntax (damaged), conflict (another program's), unsupported (written by a newer triage).
  static parsers::Result<LiveStore> open(const std::string& path, const LiveOptions& options = {});
  // Where a damaged file was moved to, or empty.
  const std::string& moved_aside() const { return moved_aside_; }

  // All or nothing. On success the ids of new sources and outbox items stand in the batch; on an error nothing is stored, the batch is
  // as it was, and the same batch may be given again. Errors: unavailable (busy), io (full, read-only), syntax (damaged).
  parsers::Status commit(LiveBatch& batch);

  // All generations, by name and generation; without the tails.
  parsers::Result<std::vector<WatchedRow>> watched();
  // Those of one job, all attempts.
  parsers::Result<std::vector<WatchedRow>> watched_of(const std::string& job);
  // Last bytes before the offset, or empty.
  parsers::Result<std::string> tail(std::int64_t source);
  // In order of the source.
  parsers::Result<std::vector<SpoolLine>> spool(std::int64_t source);
  // Removes sources with all that belongs to them. A file that is still there would be read again from its begin.
  parsers::Status forget(const std::vector<std::int64_t>& sources);
  // Removes the spool lines of sources that no judgement will ask for again; checkpoints stay.
  parsers::Status drop_spool(const std::vector<std::int64_t>& sources);

  parsers::Result<std::vector<TrackedIncident>> tracked_open();
  // Open and closed ones of a job, newest first: what a later attempt is compared with.
  parsers::Result<std::vector<TrackedIncident>> tracked_of(const std::string& job);
  // True: a later attempt has been compared with it (LiveBatch::next_runs).
  parsers::Result<bool> followed(const std::string& incident);
  // By whole id or a unique prefix: answer, failing step, fingerprint. Errors: not_found, conflict.
  parsers::Result<Kept> find(const std::string& id_prefix);

  // Which fixes helped for this cause, by feedback and by later attempts; most helpful first. One incident and fix count once.
  parsers::Result<std::vector<FixRecord>> fix_records(const std::string& fingerprint);
  // The same of all causes, by fingerprint.
  parsers::Result<std::map<std::string, std::vector<FixRecord>>> all_fix_records();

  // Runs SQLite's own check of the whole file (seconds per gigabyte). Errors: syntax with the first fault.
  parsers::Status check();

 private:
  explicit LiveStore(Connection connection) : connection_(std::move(connection)) {}
  Connection connection_;
  std::string moved_aside_;
};

// Renames a damaged database (and its -wal and -shm) to PATH.damaged-<time>. Returns the new name. Nothing is deleted.
parsers::Result<std::string> move_aside(const std::string& path, parsers::TimePoint now);

}  // namespace triage::db
