#include "db/sqlite.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <filesystem>

namespace triage::db {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::Status;

namespace {

Error error_of(sqlite3* handle, int code, const std::string& path, std::string doing) {
  const int primary = code & 0xff;
  const bool damaged = primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT;
  const bool busy = primary == SQLITE_BUSY || primary == SQLITE_LOCKED;
  const int system = primary == SQLITE_CANTOPEN && handle ? sqlite3_system_errno(handle) : 0;
  const bool no_descriptor = system == EMFILE || system == ENFILE;
  // A broken rule of the schema is a mistake of ours: trying again would not help.
  const bool ours = primary == SQLITE_CONSTRAINT || primary == SQLITE_MISUSE || primary == SQLITE_ERROR;
  const ErrorCode kind = damaged ? ErrorCode::syntax : busy || no_descriptor ? ErrorCode::unavailable : ours ? ErrorCode::internal : ErrorCode::io;
  Error error(kind, std::move(doing) + " failed");
  std::string reason = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  std::string help;
  if (damaged)
    help = "the file is not a database of triage, or it is damaged; move it away, and a new one is made";
  else if (busy)
    help = "another process holds the database; try again when it has ended";
  else if (primary == SQLITE_FULL)
    help = "the disk is full, and nothing of this step was kept; free space, or use a database file on another disk";
  else if (no_descriptor)
    help = "all file descriptors are in use for the moment; try again, and raise the limit of open files (LimitNOFILE, ulimit -n)";
  else if (primary == SQLITE_CANTOPEN)
    help = "check that the folder exists and may be written";
  else if (primary == SQLITE_READONLY)
    help = "the file or its folder may not be written, and nothing was kept; ask for write permission or use another database file";
  return std::move(error).because(std::move(reason)).at(Place{path, {}, {}, {}, {}}).help(std::move(help));
}

}  // namespace

void Connection::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
void Statement::Finalize::operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }

namespace {

// The name as SQLite's URI. immutable: no lock and no -shm file beside it, for a reader who may not write there.
std::string immutable_uri(const std::string& path) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#' || byte >= 0x80) {
      uri += '%';
      uri += kDigits[byte >> 4U];
      uri += kDigits[byte & 15U];
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

Result<Connection> Connection::open(const std::string& path, Mode mode, int busy_timeout_ms) {
  if (mode == Mode::read_write_create) return open_as(path, path, mode, busy_timeout_ms);
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    return Error(ErrorCode::not_found, "there is no database to read")
        .at(Place{path, {}, {}, {}, {}})
        .because("No such file or directory")
        .help("keep incidents with: triage scan --db FILE PATH...");
  if (std::filesystem::is_directory(path, code))
    return Error(ErrorCode::io, "a folder is no database").at(Place{path, {}, {}, {}, {}}).help("give --db the file in it");
  auto connection = open_as(path, path, mode, busy_timeout_ms);
  if (mode == Mode::read_write) return connection;
  // A file in WAL mode wants a -shm file beside it, even to read. Without a -wal everything stands in the file itself.
  if (!connection.ok() && !std::filesystem::exists(path + "-wal", code))
    if (auto alone = open_as(immutable_uri(path), path, mode, busy_timeout_ms); alone.ok()) return alone;
  return connection;
}

Result<Connection> Connection::open_as(const std::string& name, const std::string& path, Mode mode, int busy_timeout_ms) {
  Connection connection;
  connection.path_ = path;
  sqlite3* handle = nullptr;
  const int flags = mode == Mode::read_only    ? SQLITE_OPEN_READONLY
                    : mode == Mode::read_write ? SQLITE_OPEN_READWRITE
                                               : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | (name == path ? 0 : SQLITE_OPEN_URI) | SQLITE_OPEN_NOMUTEX, nullptr);
  connection.handle_.reset(handle);
  if (code != SQLITE_OK) return error_of(handle, code, path, "opening the database");
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  // A trusted schema could call functions from a hostile file; ours has no need of them.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  TRIAGE_CHECK(connection.execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;"));
  if (mode != Mode::read_write_create) TRIAGE_CHECK(connection.execute("SELECT count(*) FROM sqlite_schema;"));   // reads the first page
  if (mode == Mode::read_write_create) {
    // Before the first page is written, for then it stays as it is. In a file with pages the pragma would write.
    TRIAGE_TRY(const std::int64_t pages, connection.pragma("page_count"));
    if (pages == 0) TRIAGE_CHECK(connection.execute("PRAGMA auto_vacuum = INCREMENTAL;"));
    TRIAGE_CHECK(connection.execute("PRAGMA journal_mode = WAL;"));
  }
  // SQLite opens what it may not write for reading, and would tell at the first write only.
  if (mode != Mode::read_only && sqlite3_db_readonly(handle, "main") == 1)
    return error_of(nullptr, SQLITE_READONLY, path, "opening the database for writing");
  return connection;
}

Error Connection::error(std::string doing) const {
  return error_of(handle_.get(), sqlite3_extended_errcode(handle_.get()), path_, std::move(doing));
}

std::int64_t Connection::changes() const { return sqlite3_changes64(handle_.get()); }

Result<std::int64_t> Connection::pragma(std::string_view name) {
  TRIAGE_TRY(Statement statement, prepare("PRAGMA " + std::string(name)));
  TRIAGE_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

Status Connection::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return error("using the database");
  return parsers::done();
}

Result<Statement> Connection::prepare(std::string_view sql) {
  Statement statement;
  statement.connection_ = this;
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  statement.handle_.reset(handle);
  if (code != SQLITE_OK) return error("reading the database");
  return statement;
}

Statement& Statement::bind(int index, std::string_view text) {
  sqlite3_bind_text64(handle_.get(), index, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(handle_.get(), index, value);
  return *this;
}

Statement& Statement::bind(int index, double value) {
  sqlite3_bind_double(handle_.get(), index, value);
  return *this;
}

Statement& Statement::bind_null(int index) {
  sqlite3_bind_null(handle_.get(), index);
  return *this;
}

Statement& Statement::bind_bytes(int index, std::string_view bytes) {
  sqlite3_bind_blob64(handle_.get(), index, bytes.data() ? bytes.data() : "", bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Error error = connection_->error("using the database");
  sqlite3_reset(handle_.get());
  return error;
}

Status Statement::run() {
  for (;;) {
    TRIAGE_TRY(const bool row, step());
    if (!row) break;
  }
  sqlite3_reset(handle_.get());
  sqlite3_clear_bindings(handle_.get());
  return parsers::done();
}

std::string Statement::text(int column) const {
  const void* data = sqlite3_column_type(handle_.get(), column) == SQLITE_BLOB ? sqlite3_column_blob(handle_.get(), column)
                                                                              : sqlite3_column_text(handle_.get(), column);
  if (!data) return {};
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return std::string(static_cast<const char*>(data), size);
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
double Statement::number(int column) const { return sqlite3_column_double(handle_.get(), column); }
bool Statement::is_null(int column) const { return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL; }

Result<Transaction> Transaction::begin(Connection& connection) {
  TRIAGE_CHECK(connection.execute("BEGIN IMMEDIATE"));
  return Transaction(connection);
}

Transaction::~Transaction() {
  if (connection_) (void)connection_->execute("ROLLBACK");
}

Status Transaction::commit() {
  TRIAGE_CHECK(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return parsers::done();
}

}  // namespace triage::db
