// Brings a database to the newest schema, one file of db/schema a version, each in its own transaction with user_version.
#pragma once

#include "db/sqlite.hpp"

namespace triage::db {

// Errors: unsupported when the file was written by a newer triage (named with both versions); syntax when it is another program's.
parsers::Status migrate(Connection& connection);

// For those who do not migrate. Errors: unsupported when the schema is newer or older than this program's (named with both versions);
// not_found when nothing was stored yet.
parsers::Status require_schema(Connection& connection);

// The version this program writes.
int schema_version();

}  // namespace triage::db
