// Silences: made and ended by people through the API or the command line. One thread at a time.
#pragma once

#include <string>
#include <string_view>
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

// What an alert is about.
struct SilenceTarget {
  std::string_view kind, job, node, fingerprint;
};
// True: the alert is held back at this time.
bool silences(const Silence& silence, const SilenceTarget& target, parsers::TimePoint now);

}  // namespace triage::db
