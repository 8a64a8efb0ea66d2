// Brings a database to the newest schema, one file of db/schema a version, each in its own transaction with user_version.
#pragma once

#include "db/sqlite.hpp"

namespace triage::db {

// Errors: unsupported when the file was written by a newer triage (named with both versions); syntax when it is another program's.
parsers::Status migrate(Connection& connection);

// The version this program writes.
int schema_version();

}  // namespace triage::db
