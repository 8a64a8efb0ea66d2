// What workers tell the desk: the values that cross from the agent half (bytes -> findings) to the hub half (findings -> diagnosis).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/spool.hpp"
#include "db/live_rows.hpp"
#include "signatures/match/match.hpp"
#include "signatures/verdict/snapshot_facts.hpp"

namespace triage::daemon {

// How far one source was taken, and the lines of it that matter. Sent after each portion that told something, else about once a second.
struct SourceNews {
  db::WatchedRow row;                       // name and generation tell whose; id is not read
  signatures::SourceInfo info;
  std::vector<SpoolLine> spool;             // new ones
  std::optional<std::vector<SpoolLine>> tail;   // the last lines now; empty: as before
  std::uint64_t telling = 0;                // lines that tell of a failure, since the last news
  std::optional<std::int64_t> step;         // the last one that was finished
  std::vector<signatures::Lost> lost;       // what could not be read since the last news
  // A dump file: what it says. Read again after a restart, by its name.
  std::optional<signatures::SourceFindings> dump;
  bool again = false;                       // a dump that the desk asked for: nothing new, its row stays as it is
  bool must_last = false;                   // cannot be read again (pushed): on the disk before `committed` is called
  std::function<void(bool stored)> committed;   // called once, from the desk's thread; may be empty
};

// What a stored row says of its source.
inline signatures::SourceInfo source_of_row(const db::WatchedRow& row) {
  signatures::SourceInfo info;
  info.name = row.name;
  info.job = row.job;
  info.node = row.node;
  info.attempt = row.attempt;
  info.rank = row.rank;
  info.local_rank = row.local_rank;
  info.system = row.kind == "kmsg" || row.kind == "journal";
  info.dump = row.kind == "dump";
  return info;
}

}  // namespace triage::daemon
