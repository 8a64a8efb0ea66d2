// Stream: which process's output a record belongs to, as far as its prefixes tell. Owns its text. Used by readers of several lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parsers/records/record.hpp"

namespace triage::parsers {

struct Stream {
  std::optional<int> rank, local_rank, task;
  std::optional<std::int64_t> pid;
  std::string node, actor;
  bool system = false;

  static Stream of(const Record& record) {
    return {record.rank, record.local_rank, record.task, record.pid, std::string(record.node), std::string(record.actor), record.system};
  }
  bool holds(const Record& record) const {
    return rank == record.rank && local_rank == record.local_rank && task == record.task && pid == record.pid && node == record.node &&
           actor == record.actor && system == record.system;
  }
};

}  // namespace triage::parsers
