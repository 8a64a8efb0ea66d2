// The one way in which incidents are written and read, used by Store, LiveStore and Query on their own connections.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "db/rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

// Writes incident, findings and fixes, unless the same answer is stored already. An incident judged anew is replaced; its feedback and
// the time when it was first kept stay. Returns whether something was written. Call it within a transaction.
parsers::Result<bool> write_incident(Connection& connection, const Keep& keep, const RuleSet& rules, parsers::TimePoint now);

// Errors: syntax when the cursor is none of ours.
parsers::Result<HistoryPage> read_history(Connection& connection, const HistoryQuery& query);
// By whole id or a unique prefix. Errors: not_found, conflict.
parsers::Result<Kept> find_incident(Connection& connection, const std::string& id_prefix);

// Which changes helped, by fingerprint; most helpful first. One incident and fix count once, and a person's word wins over what a later
// attempt showed. fingerprint empty: of all causes.
parsers::Result<std::map<std::string, std::vector<FixRecord>>> read_fix_records(Connection& connection, const std::string& fingerprint);
parsers::Result<std::vector<FixRecord>> fix_records_of(Connection& connection, const std::string& fingerprint);

}  // namespace triage::db
