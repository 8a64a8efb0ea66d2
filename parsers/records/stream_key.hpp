// The identity by which interleaved streams of one source are told apart: rank, task, actor and node as the prefixes say.
#pragma once

#include <string>

#include "parsers/records/record.hpp"

namespace triage::parsers {

// Two records of one stream give the same key. Written into `out`, which is used again. The process id counts only beside an
// actor's name: other prefixes carry it on some lines of a process only.
inline void stream_key(const Record& record, std::string& out) {
  out.clear();
  const auto number = [&](auto value) {
    if (value) out += std::to_string(*value);
    out.push_back('\x1f');
  };
  number(record.rank);
  number(record.local_rank);
  number(record.task);
  out += record.actor;
  out.push_back('\x1f');
  if (!record.actor.empty()) number(record.pid);
  out += record.node;
}

}  // namespace triage::parsers
