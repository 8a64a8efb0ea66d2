// Ranks whose own device or recorder stands still: others completed what they have not seen complete.
#pragma once

#include <map>

#include "signatures/verdict/recorder/job.hpp"

namespace triage::signatures {

struct Stall {
  const parsers::RecordedOp* in = nullptr;          // the oldest such call
  std::size_t calls = 0;                            // how many
};
using StalledRanks = std::map<std::size_t, Stall>;  // by index of the rank in its job

StalledRanks find_stalled(const RecordedJob& job);

}  // namespace triage::signatures
