// Addresses and events of allocator recordings that tests write down by hand.
#pragma once

#include <cstdint>

#include "parsers/snapshot/trace.hpp"

namespace triage::tests {

inline constexpr std::int64_t kMiB = 1 << 20;

// An address, `mib` MiB from where the recordings begin.
constexpr std::uint64_t at(std::int64_t mib) { return (std::uint64_t{1} << 45) + static_cast<std::uint64_t>(mib * kMiB); }

inline parsers::TraceEvent trace_event(parsers::TraceAction action, std::uint64_t address, std::int64_t mib, std::uint64_t stream, parsers::PoolId pool = {}) {
  parsers::TraceEvent e;
  e.action = action;
  e.address = address;
  e.size = mib * kMiB;
  e.stream = stream;
  e.pool = pool;
  return e;
}

}  // namespace triage::tests
