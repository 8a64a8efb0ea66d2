// The identity by which interleaved streams of one source are told apart: rank, task, actor and node as the prefixes of launchers
// and containers say, which stand before every line of a process. What a logger says stands on some lines only and does not count.
#pragma once

#include <cstdint>
#include <string_view>

#include "parsers/records/record.hpp"

namespace triage::parsers {

// Two records of one stream give the same number; 0 where no prefix says anything. FNV-1a over the fields: two streams that
// collide are read as one, no more. The process id counts only beside an actor's name.
inline std::uint64_t stream_key(const Record& record) {
  const bool named = record.rank || record.local_rank || record.task || !record.actor.empty() || !record.node.empty();
  if (!named && !record.pid) return 0;
  std::uint64_t hash = 14695981039346656037ULL;
  const auto byte = [&](unsigned char value) { hash = (hash ^ value) * 1099511628211ULL; };
  const auto number = [&](std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> shift));
  };
  const auto text = [&](std::string_view value) {
    for (const char c : value) byte(static_cast<unsigned char>(c));
    byte(0);
  };
  number(record.rank.value_or(-1));
  number(record.local_rank.value_or(-1));
  number(record.task.value_or(-1));
  number(record.actor.empty() && named ? -1 : record.pid.value_or(-1));
  text(record.actor);
  text(record.node);
  return hash == 0 ? 1 : hash;
}

}  // namespace triage::parsers
