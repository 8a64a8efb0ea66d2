// An analysed snapshot as one self-contained page: memory over time with zoom, flame graph of what lived at the moment that matters, map of
// the segments. No network; the texts of the file reach the page as data only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_file.hpp"

namespace triage::daemon {

// How much of an analysis goes into a graph.
struct GraphSize {
  std::size_t points = SIZE_MAX;          // of each timeline; neighbours are merged to stay below it
  std::size_t stacks = 4000;              // of each device; the smaller ones are folded into one a category
  std::size_t segments = 3000, blocks = 60'000;
  bool over_time = true;                  // "groups", "areas" and "states"
};

// What the page draws: {"file", "note", "frames": [text], "devices": [{"device", "weight": reserved bytes, "events", "facts": [[name, bytes or text,
// is it bad]], "moment", "categories": [[name, bytes, guessed]], "timeline": [[us, allocated low, allocated high, reserved]],
// "groups": [category], "areas": for each point the bytes of each of these, "stretch": events a point, "steps": points where a step ends,
// "points": recorded, "merged": of them in one of "timeline", "steps_marked", "peak_point", "oom_point", "states": [{"p": point, "s": [[stack, bytes]]}],
// "stacks": [{"b": bytes, "n": blocks, "c": category, "w": where, "f": frames, outermost first}],
// "segments": [{"x": address, "b": bytes, "a": in use, "n": name, "k": [[bytes, state, stack or -1]]}]}]}. state: 0 allocated, 1 waits for a
// stream, 2 free.
Json snapshot_graph_json(const SnapshotAnalysis& analysis, const GraphSize& size = {});

// Part of the timeline of one device, from point `from` up to before `to` (clamped), merged to at most `points`: {"from", "merged", "timeline"}.
Json timeline_part_json(const DeviceAnalysis& device, std::size_t from, std::size_t to, std::size_t points);

// The analysis needs a timeline (SummaryOptions::timeline_points).
std::string snapshot_html(const SnapshotAnalysis& analysis);

}  // namespace triage::daemon
