// Deletes what is old: closed incidents by age, count and size of the file, then what hung on them. Works in slices on a connection of its
// own, so that the writer never waits long. What fixes did is kept for good. One thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "db/sqlite.hpp"
#include "parsers/base/units.hpp"

namespace triage::db {

struct RetentionLimits {
  std::optional<std::chrono::seconds> age;           // of closed incidents, since they were kept
  std::optional<std::int64_t> incidents;             // closed ones
  std::optional<std::uint64_t> bytes;                // of the file, without its free pages
  std::optional<std::chrono::seconds> sources_age;   // ended sources of jobs without an open incident, not seen for so long. The desk
                                                     // has to keep seen_at of files that are still there
};

struct RetentionSlice {
  std::int64_t incidents = 0, sources = 0, alerts = 0, silences = 0;   // deleted
  std::int64_t pages = 0;              // given back to the file system
  bool more = false;                   // there is more to do: call again, after the writer had its turn
  bool short_of_closed = false;        // the file is over its size, and only open incidents and sources are left
};

class Retention {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  static parsers::Result<Retention> open(const std::string& path, Clock clock = std::chrono::steady_clock::now);

  // One transaction of at most about `budget`; its first portion is deleted whatever the time, so that slices come to an end. While others
  // hold the database for longer than a second nothing is done, and `more` is set: what is old can wait. An incident with an alert that
  // waits or is being sent stays until that is done.
  parsers::Result<RetentionSlice> slice(const RetentionLimits& limits, parsers::TimePoint now,
                                        std::chrono::milliseconds budget = std::chrono::milliseconds(30));
  // Moves what stands in the -wal file into the database, without holding up the writer. To be called every second or so: the
  // writer's own check-pointing is set so high that it never waits for the disk while this is done.
  parsers::Status move_log();

 private:
  Retention(Connection connection, Clock clock) : connection_(std::move(connection)), clock_(std::move(clock)) {}
  Connection connection_;
  Clock clock_;
};

}  // namespace triage::db
