// The device's memory at the moment of an out-of-memory failure, and which kind of failure the figures show.
#pragma once

#include <string>
#include <vector>

#include "signatures/match/match.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Absurd figures (0 bytes in use, 2^54 bytes; what NVML gives inside containers) are left out and told in `note`.
// Processes that are this one (by the sum of its own figures) are not among other_processes.
Ledger make_ledger(const parsers::OutOfMemory& event);

struct MemoryKind {
  std::string kind;                      // gpu.oom.capacity, ...
  std::vector<std::string> reasons;      // the rules of thumb that decided, with their figures
  std::vector<std::string> fix_hints;    // fix families that follow from the figures
  double confidence = 0;                 // shift
};
// Refines gpu.oom. kind: of the rule; a more exact one (gpu.oom.nccl) stays.
MemoryKind refine_memory_kind(const std::string& kind, const parsers::OutOfMemory* event, const Ledger* ledger, Phase phase,
                              const parsers::RunConfig& config);

// "expandable_segments:True" is set, by the run's configuration or by the allocator setting as printed.
bool expandable_segments_on(const parsers::RunConfig& config);

}  // namespace triage::signatures
