#include "db/beside.hpp"

#include "db/migrate.hpp"

namespace triage::db {

parsers::Result<Connection> open_beside(const std::string& path, int busy_timeout_ms) {
  TRIAGE_TRY(Connection connection, Connection::open(path, Connection::Mode::read_write, busy_timeout_ms));
  TRIAGE_CHECK(require_schema(connection));
  TRIAGE_CHECK(connection.execute(std::string(kLogPragmas)));
  return connection;
}

}  // namespace triage::db
