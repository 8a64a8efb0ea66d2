// Silences: made and ended by people through the API or the command line. One thread at a time.
#pragma once

#include <vector>

#include "db/live_rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

class Silences {
 public:
  static parsers::Result<Silences> open(const std::string& path, int busy_timeout_ms = 5000);

  // Returns its id. Errors: syntax when it ends before it starts, has no end, or fits everything without saying a reason.
  parsers::Result<std::int64_t> add(const Silence& silence, parsers::TimePoint now);
  // Ends it now; what has ended stays as it is. Errors: not_found.
  parsers::Status end(std::int64_t id, parsers::TimePoint now);
  // Those that hold at this time, or will.
  parsers::Result<std::vector<Silence>> active(parsers::TimePoint now);
  // All, newest first.
  parsers::Result<std::vector<Silence>> all(std::int64_t limit);

 private:
  explicit Silences(Connection connection) : connection_(std::move(connection)) {}
  Connection connection_;
};

// True: an alert of this kind, job, node and cause is held back at this time.
bool silences(const Silence& silence, const signatures::Diagnosis& diagnosis, parsers::TimePoint now);
// The same for plain fields.
struct SilenceTarget {
  std::string_view kind, job, node, fingerprint;
};
bool silences(const Silence& silence, const SilenceTarget& target, parsers::TimePoint now);

}  // namespace triage::db
