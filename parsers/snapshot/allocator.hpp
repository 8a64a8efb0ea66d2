// A memory snapshot of PyTorch's caching allocator as typed values: what torch.cuda.memory._dump_snapshot (and the C++ dump) writes.
// Made by snapshot_reader.hpp; read by the summary, by the replay of the allocator and by the views.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"
#include "parsers/snapshot/stack_table.hpp"
#include "parsers/snapshot/trace.hpp"

namespace triage::parsers {

enum class BlockState : std::uint8_t {
  allocated,       // "active_allocated": a tensor holds it
  pending_free,    // "active_awaiting_free", "active_pending_free": its tensor died, a stream still uses it
  inactive,        // free, inside its segment
};

struct SnapshotBlock {
  std::uint64_t address = 0;
  std::int64_t size = 0;             // bytes, rounded
  std::int64_t requested_size = 0;   // bytes as asked for; of an inactive block: as asked for last
  StackId stack = 0;                 // where it was allocated
  BlockState state = BlockState::inactive;
};

struct SnapshotSegment {
  int device = 0;
  std::uint64_t address = 0;
  std::int64_t total_size = 0;       // bytes reserved from the driver; of an expandable segment: one mapped stretch
  std::int64_t allocated_size = 0, active_size = 0, requested_size = 0;   // as the file states them
  std::uint64_t stream = 0;
  PoolId pool;
  StackId stack = 0;
  bool large = false;                // of the large pool (requests over 1 MiB)
  bool expandable = false;
  std::uint32_t first_block = 0, blocks = 0;   // in AllocatorSnapshot::blocks, in address order
};

// One mark of a range that somebody named: torch.profiler's record_function, by default the optimizer's step and zero_grad and the
// data loader, where the recorder was told to keep them. Marks of a device stand in time order.
struct SnapshotAnnotation {
  bool start = true;                 // START or END
  int device = 0;
  TextId name = 0;
  std::int64_t time_us = 0;
};

// The allocator's settings of the run, as the snapshot states them (PyTorch 2.1 and later).
struct AllocatorSettings {
  bool known = false;                             // the file has the entry
  std::string configuration;                      // PYTORCH_CUDA_ALLOC_CONF as text
  std::optional<std::int64_t> max_split_bytes;    // empty: none set (-1 in the file)
  double garbage_collection_threshold = 0;        // 0: off
  bool expandable_segments = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> roundup_power2_divisions;   // size in MiB -> divisions (0, 1: none)
  std::vector<std::pair<std::string, std::string>> all;                          // every scalar entry, as text
};

struct DeviceTrace {
  int device = 0;
  AllocatorTrace events;
};

struct AllocatorSnapshot {
  StackTable stacks;
  std::vector<SnapshotSegment> segments;          // all devices, in the file's order
  std::vector<SnapshotBlock> blocks;
  std::vector<DeviceTrace> traces;                // devices that have events; ascending
  std::vector<SnapshotAnnotation> annotations;
  AllocatorSettings settings;
  bool has_traces = false;                        // the file has a place for traces: not the plain list of segments
  bool events_name_pools = false;                 // PyTorch 2.12 and later
  bool segments_whole = false, traces_whole = false;
  std::uint64_t bytes = 0;                        // of the file, as far as read
  std::optional<Error> cut;                       // the file ends early or is damaged from there on

  std::span<const SnapshotBlock> blocks_of(const SnapshotSegment& segment) const {
    return std::span<const SnapshotBlock>(blocks).subspan(segment.first_block, segment.blocks);
  }
  const AllocatorTrace* trace_of(int device) const {
    for (const DeviceTrace& trace : traces)
      if (trace.device == device) return &trace.events;
    return nullptr;
  }
  // Numbers of the devices that have segments or events, ascending.
  std::vector<int> devices() const;
};

}  // namespace triage::parsers
