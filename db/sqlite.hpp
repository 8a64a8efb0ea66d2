// Small owners of SQLite handles. Not thread-safe: one Connection a thread. Errors name the database file and what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace triage::db {

class Statement;

class Connection {
 public:
  enum class Mode { read_write_create, read_write, read_only };
  // Opens the file with WAL and foreign keys; a file that is made gives pages back when asked to (incremental vacuum). busy_timeout_ms: how
  // long a call waits for another connection. Errors: io (path, permission, read-only, full disk), syntax (not a database), not_found
  // (there is none, and the mode does not make one).
  static parsers::Result<Connection> open(const std::string& path, Mode mode, int busy_timeout_ms = 5000);

  parsers::Result<Statement> prepare(std::string_view sql);
  // Runs a script of several statements without parameters.
  parsers::Status execute(const std::string& sql);
  // The error of the last call as one of ours.
  parsers::Error error(std::string doing) const;
  const std::string& path() const { return path_; }
  // Rows changed by the last INSERT, UPDATE or DELETE.
  std::int64_t changes() const;
  // One number of a PRAGMA.
  parsers::Result<std::int64_t> pragma(std::string_view name);

 private:
  static parsers::Result<Connection> open_as(const std::string& name, const std::string& path, Mode mode, int busy_timeout_ms);
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  friend class Statement;
};

// A prepared statement. Parameters and columns count from 1 and 0, as in SQLite. Bound text is copied.
class Statement {
 public:
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, double value);
  Statement& bind_null(int index);
  Statement& bind_bytes(int index, std::string_view bytes);   // a BLOB
  template <class T>
  Statement& bind(int index, const std::optional<T>& value) {
    return value ? bind(index, *value) : bind_null(index);
  }

  // True: a row stands ready. False: done.
  parsers::Result<bool> step();
  // Runs to the end and resets, ready for new parameters.
  parsers::Status run();

  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double number(int column) const;
  bool is_null(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  Connection* connection_ = nullptr;
  friend class Connection;
};

// BEGIN IMMEDIATE ... COMMIT; rolls back when it is destroyed without commit().
class Transaction {
 public:
  static parsers::Result<Transaction> begin(Connection& connection);
  Transaction(Transaction&& other) noexcept : connection_(other.connection_) { other.connection_ = nullptr; }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  parsers::Status commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Connection* connection_;
};

}  // namespace triage::db
