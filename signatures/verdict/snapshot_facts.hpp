// What an allocator snapshot says of one device, in the few figures that a diagnosis needs; and how it joins the diagnosis of a log. A snapshot
// of an out-of-memory failure that no log tells of makes a diagnosis by itself: as findings of a source, judged like any other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parsers/base/units.hpp"
#include "signatures/match/match.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

struct SnapshotFacts {
  SourceInfo source;
  int device = 0;
  std::vector<CompositionTerm> terms;            // at the failure, else at the peak, else at the dump; MEASURED
  parsers::Bytes allocated, reserved;            // at that moment
  struct Failure {
    parsers::Bytes requested, free;              // free: on the device
    std::optional<parsers::TimePoint> time;
    std::vector<parsers::Frame> frames;          // outermost first
    bool blocked = false;                        // the free bytes inside the cache would have held the request, no single block did
  };
  std::optional<Failure> failure;
  bool expandable_segments = false;
  std::optional<std::string> growth;             // a leak, in words
  std::vector<AllocatorWhatIf> what_if;          // of a failure: other allocator settings, replayed
};

// Gives each diagnosis of device memory the composition of the snapshot of the same failure: the same request, and where both know them
// the same rank, device and free memory. Returns for each snapshot whether it was used.
std::vector<bool> join_snapshots(std::span<Diagnosis*> diagnoses, const std::vector<SnapshotFacts>& snapshots);

// The failure that a snapshot holds, as the findings of a source of its own.
SourceFindings findings_of(const SnapshotFacts& snapshot);

}  // namespace triage::signatures
