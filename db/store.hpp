// The store of incidents: the single writer of a database file, and its readers. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "db/rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

class Store {
 public:
  // Opens or makes the file and brings it to the newest schema.
  static parsers::Result<Store> open(const std::string& path);
  // Opens an existing file for reading. Errors: not_found when there is none.
  static parsers::Result<Store> open_read_only(const std::string& path);

  // Keeps incidents and sources in one transaction. An incident that is already there with the same answer stays as it is, down to
  // its time; one judged anew (other rules) is replaced, its feedback stays. Returns the number of rows that are new or changed.
  parsers::Result<std::int64_t> keep(const std::vector<Keep>& incidents, const std::vector<signatures::SourceInfo>& sources,
                                     const RuleSet& rules, parsers::TimePoint now);
  // Replaces the lines that are kept with an incident. incident must be whole. Errors: syntax when there is none of that id.
  parsers::Status keep_excerpts(const std::string& incident, const std::vector<Excerpt>& excerpts);
  // Newest first.
  parsers::Result<std::vector<HistoryRow>> history(const HistoryQuery& query);
  // By id or by a prefix of it that is unique. Errors: not_found; conflict when several begin so.
  parsers::Result<Kept> find(const std::string& id_prefix);
  // Replaces what was said before of the same incident and fix. id must be whole.
  parsers::Status say(const std::string& id, const Feedback& feedback);
  // Changes that were tried for this fingerprint, by feedback and by later attempts, most helpful first.
  parsers::Result<std::vector<FixRecord>> fix_records(const std::string& fingerprint);

 private:
  explicit Store(Connection connection) : connection_(std::move(connection)) {}
  Connection connection_;
};

}  // namespace triage::db
