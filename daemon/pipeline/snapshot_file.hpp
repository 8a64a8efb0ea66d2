// An allocator snapshot from a file to an analysis: what `triage snapshot` prints and what `triage scan` joins with a log.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/tail/input.hpp"
#include "parsers/base/result.hpp"
#include "parsers/snapshot/allocator.hpp"
#include "parsers/snapshot/summary.hpp"
#include "signatures/verdict/memory_composition.hpp"
#include "signatures/verdict/snapshot_facts.hpp"

namespace triage::daemon {

struct DeviceAnalysis {
  parsers::DeviceSummary summary;
  signatures::MemoryComposition now;                    // at the dump
  std::optional<signatures::MemoryComposition> peak;    // at the peak of the trace
  std::optional<signatures::MemoryComposition> oom;     // when the allocation failed

  // The moment that matters most: the failure, else the peak, else the dump.
  const parsers::MemoryState& state() const { return summary.oom ? summary.oom->state : summary.peak ? *summary.peak : summary.now; }
  const signatures::MemoryComposition& composition() const { return oom ? *oom : peak ? *peak : now; }
};

struct SnapshotAnalysis {
  std::string file;                                     // as the user gave it; inside an archive: archive!member
  std::optional<int> rank;                              // from the name
  parsers::AllocatorSnapshot snapshot;
  std::vector<DeviceAnalysis> devices;                  // ascending
  std::int64_t device_bytes = 0;                        // as the caller told: what PyTorch can reserve on one device; 0: not known
};

// Reads one snapshot from a stream. head: bytes of it that were read already.
parsers::Result<parsers::AllocatorSnapshot> read_snapshot(ByteSource& source, const std::string& name, std::string_view head = {});
// The first snapshot of a file, plain or packed. Errors name the file and the byte.
parsers::Result<parsers::AllocatorSnapshot> load_snapshot(const std::string& path);
parsers::Result<parsers::AllocatorSnapshot> load_snapshot(std::unique_ptr<ByteSource> input, const std::string& name);

SnapshotAnalysis analyze_snapshot(std::string file, parsers::AllocatorSnapshot snapshot, const parsers::SummaryOptions& options = {});

// What the judgement of logs needs of it, as a source: one entry of `snapshots` a device that failed or holds memory.
signatures::SourceFindings snapshot_findings(const SnapshotAnalysis& analysis);

}  // namespace triage::daemon
