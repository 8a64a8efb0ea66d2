// An allocator snapshot as the input of a replay: its stated settings, and its events in two walks.
#include <bit>

#include "signatures/memory/empty_cache_stacks.hpp"
#include "signatures/memory/replay_pools.hpp"
#include "signatures/memory/replay_recording.hpp"

namespace triage::signatures {
using parsers::TraceAction;

AllocConf snapshot_settings(const parsers::AllocatorSettings& stated) {
  AllocConf settings;
  if (!stated.known) return settings;
  if (auto read = read_alloc_conf(stated.configuration); read.ok()) settings = std::move(*read);
  // The text may have been changed while the program ran; the single values are those of the end.
  settings.expandable_segments = stated.expandable_segments;
  settings.garbage_collection_threshold = stated.garbage_collection_threshold;
  settings.max_split_size.reset();
  if (stated.max_split_bytes && *stated.max_split_bytes > 0) settings.max_split_size = parsers::Bytes(*stated.max_split_bytes);
  for (const auto& [mib, divisions] : stated.roundup_power2_divisions) {
    if (mib <= 0 || divisions < 0 || divisions > (1 << 30)) continue;
    const auto index = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(mib))) - 1;
    if (index < settings.roundup_power2_divisions.size())
      settings.roundup_power2_divisions[index] = static_cast<std::uint32_t>(divisions);
  }
  return settings;
}

std::optional<ReplayTrace> replay_trace(const parsers::AllocatorSnapshot& snapshot, int device) {
  const parsers::AllocatorTrace* trace = snapshot.trace_of(device);
  if (!trace || trace->empty()) return std::nullopt;
  bool frees_complete = false;
  parsers::TraceEvent event;
  for (auto cursor = trace->events(); !frees_complete && cursor.next(event);)
    frees_complete = event.action == TraceAction::free_completed;
  const AllocConf settings = snapshot_settings(snapshot.settings);
  ReplayTraceBuilder builder(settings, frees_complete, EmptyCacheStacks(snapshot.stacks));
  // A trace that is cut does not lead to the state at the end: then nothing is said of the state before it.
  if (snapshot.traces_whole)
    for (const parsers::SnapshotSegment& segment : snapshot.segments)
      if (segment.device == device) builder.segment(segment, snapshot.blocks_of(segment));
  builder.pools_of_segments(segment_pools(snapshot, device, settings));
  for (auto cursor = trace->events(); cursor.next(event);) builder.event(event);
  return builder.finish();
}

}  // namespace triage::signatures
