// A WHERE clause of constant conditions with bound values: only the conditions that were asked for, so that SQLite can use an index for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "db/rows.hpp"
#include "db/sqlite.hpp"

namespace triage::db {

class Filter {
 public:
  using Value = std::variant<std::int64_t, std::string>;
  // condition: constant text; each @ in it stands for the value.
  void add(std::string_view condition, Value value);
  // Of constant text and names that parameter() gave.
  void add(std::string_view condition);
  // Binds a value and returns the name of its parameter.
  std::string parameter(Value value);
  // "WHERE ..." or nothing.
  std::string text() const { return text_; }
  // Returns the index of the first parameter that is still free.
  int bind(Statement& statement) const;

 private:
  std::string text_;
  std::vector<Value> values_;
};

// Of incident i LEFT JOIN tracked t; without limit and cursor.
Filter incident_filter(const HistoryQuery& query);

}  // namespace triage::db
