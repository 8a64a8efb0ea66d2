#include "db/migrate.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "parsers/base/embedded_file.hpp"

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;

std::span<const parsers::EmbeddedFile> embedded_schema();

namespace {

// "TRGE": marks a file of ours, so that another program's database is never written to.
constexpr std::int64_t kApplicationId = 0x54524745;

Error newer(const Connection& connection, std::int64_t version) {
  return Error(ErrorCode::unsupported, "the database was written by a newer triage")
      .at(Place{connection.path(), {}, {}, {}, {}})
      .because("its schema has version " + std::to_string(version) + ", this program knows " + std::to_string(schema_version()))
      .help("use the newer triage, or another database file");
}

std::vector<parsers::EmbeddedFile> steps() {
  const auto files = embedded_schema();
  std::vector<parsers::EmbeddedFile> sorted(files.begin(), files.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return sorted;
}

}  // namespace

int schema_version() { return static_cast<int>(embedded_schema().size()); }

parsers::Status require_schema(Connection& connection) {
  TRIAGE_TRY(const std::int64_t version, connection.pragma("user_version"));
  const Place place{connection.path(), {}, {}, {}, {}};
  if (version > schema_version()) return newer(connection, version);
  if (version == 0)
    return Error(ErrorCode::not_found, "nobody has kept anything in the database yet")
        .at(place)
        .help("keep incidents with: triage scan --db FILE PATH...");
  if (version != schema_version())
    return Error(ErrorCode::unsupported, "the database has another schema than this triage")
        .at(place)
        .because("it has version " + std::to_string(version) + ", this program reads " + std::to_string(schema_version()))
        .help("a scan with --db, or the service, brings an older file to the newest schema");
  return parsers::done();
}

parsers::Status migrate(Connection& connection) {
  TRIAGE_TRY(const std::int64_t version, connection.pragma("user_version"));
  TRIAGE_TRY(const std::int64_t application, connection.pragma("application_id"));
  const Place place{connection.path(), {}, {}, {}, {}};
  if (version > schema_version()) return newer(connection, version);
  if (version == 0) {
    TRIAGE_TRY(Statement tables, connection.prepare("SELECT count(*) FROM sqlite_master"));
    TRIAGE_TRY(const bool row, tables.step());
    if (row && tables.integer(0) > 0)
      return Error(ErrorCode::conflict, "the file is another program's database").at(place).help("give --db a file of its own");
  } else if (application != kApplicationId) {
    return Error(ErrorCode::conflict, "the file is another program's database").at(place).help("give --db a file of its own");
  }
  const auto files = steps();
  for (auto step = static_cast<std::size_t>(version); step < files.size(); ++step) {
    TRIAGE_TRY(Transaction transaction, Transaction::begin(connection));
    TRIAGE_TRY(const std::int64_t reached, connection.pragma("user_version"));
    if (reached > static_cast<std::int64_t>(step)) continue;   // another process was quicker
    TRIAGE_CHECK(connection.execute(std::string(files[step].text)));
    TRIAGE_CHECK(connection.execute("PRAGMA application_id = " + std::to_string(kApplicationId)));
    TRIAGE_CHECK(connection.execute("PRAGMA user_version = " + std::to_string(step + 1)));
    TRIAGE_CHECK(transaction.commit());
  }
  return parsers::done();
}

}  // namespace triage::db
