// What an allocator snapshot says of one device, in the few figures that a diagnosis needs; and how it joins the diagnosis of a log. A snapshot
// of an out-of-memory failure that no log tells of makes a diagnosis by itself: as findings of a source, judged like any other.
#pragma once

#include <cstdint>
#include <memory>
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
  // Memory at one moment, by what it was for; MEASURED.
  struct Moment {
    std::string when;                            // "at the failure", "at the peak of its trace", "when it was written"
    parsers::Bytes allocated, reserved;
    std::vector<CompositionTerm> terms;
  };
  std::vector<Moment> moments;                   // the failure alone; without one the peak of the trace and the dump; never empty
  std::uint64_t events = 0;                      // of its trace
  std::optional<parsers::TimePoint> time;        // of the last event
  struct Failure {
    parsers::Bytes requested, free;              // free: on the device
    std::optional<parsers::TimePoint> time;
    std::vector<parsers::Frame> frames;          // outermost first
    bool blocked = false;                        // the free bytes inside the cache would have held the request, no single block did
  };
  std::optional<Failure> failure;
  bool expandable_segments = false;
  std::vector<std::string> doubts;               // why its figures may be wrong: the file is cut, or has sums that cannot be
  struct Growth {                                // what each step left behind
    parsers::Bytes per_step, total;
    std::size_t steps = 0;
    std::string where;                           // the stack that grows fastest
  };
  std::optional<Growth> growth;
  std::vector<AllocatorWhatIf> what_if;          // of a failure: other allocator settings, replayed
};

using Snapshots = std::vector<std::shared_ptr<const SnapshotFacts>>;

// Gives each diagnosis of device memory the composition of the snapshot of the same failure: the same request, and where both know them
// the same rank, device and free memory. One that holds no failure (written by a timer, by an exception handler, or with the recorder off)
// joins by rank, device, place, time and by how much was allocated. A growth that makes up much of the memory makes the kind gpu.oom.leak.
// Doubts of the snapshot become reasons, and take from the confidence.
// Returns for each snapshot whether it was used.
std::vector<bool> join_snapshots(std::span<Diagnosis*> diagnoses, const Snapshots& snapshots);

// The failure that a snapshot holds, as the findings of a source of its own.
SourceFindings findings_of(const SnapshotFacts& snapshot);

}  // namespace triage::signatures
