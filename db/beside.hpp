// A connection that writes now and then beside the service's writer: outbox, silences, retention.
#pragma once

#include <string>

#include "db/sqlite.hpp"

namespace triage::db {

// Pages in the -wal file before a connection that commits moves them into the database itself: 16 MiB. Retention::move_log does it
// before that, without anybody waiting for the disk; this is the bound if nobody calls it. The file is cut back to the same size.
inline constexpr std::string_view kLogPragmas = "PRAGMA wal_autocheckpoint = 4096; PRAGMA journal_size_limit = 16777216;";

// Opens a file that is there with the newest schema. Errors: not_found, unsupported, io, syntax, unavailable.
parsers::Result<Connection> open_beside(const std::string& path, int busy_timeout_ms);

}  // namespace triage::db
