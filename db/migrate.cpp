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

parsers::Result<std::int64_t> pragma(Connection& connection, std::string_view name) {
  TRIAGE_TRY(Statement statement, connection.prepare("PRAGMA " + std::string(name)));
  TRIAGE_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

std::vector<parsers::EmbeddedFile> steps() {
  const auto files = embedded_schema();
  std::vector<parsers::EmbeddedFile> sorted(files.begin(), files.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return sorted;
}

}  // namespace

int schema_version() { return static_cast<int>(embedded_schema().size()); }

parsers::Status migrate(Connection& connection) {
  TRIAGE_TRY(const std::int64_t version, pragma(connection, "user_version"));
  TRIAGE_TRY(const std::int64_t application, pragma(connection, "application_id"));
  const Place place{connection.path(), {}, {}, {}, {}};
  if (version > schema_version())
    return Error(ErrorCode::unsupported, "the database was written by a newer triage")
        .at(place)
        .because("its schema has version " + std::to_string(version) + ", this program knows " + std::to_string(schema_version()))
        .help("use the newer triage, or give --db another file");
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
    TRIAGE_CHECK(connection.execute(std::string(files[step].text)));
    TRIAGE_CHECK(connection.execute("PRAGMA application_id = " + std::to_string(kApplicationId)));
    TRIAGE_CHECK(connection.execute("PRAGMA user_version = " + std::to_string(step + 1)));
    TRIAGE_CHECK(transaction.commit());
  }
  return parsers::done();
}

}  // namespace triage::db
