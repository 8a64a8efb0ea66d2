#include "daemon/http/snapshot_json.hpp"

#include <algorithm>

#include "daemon/pipeline/snapshot_compare.hpp"

namespace triage::daemon {

using namespace signatures;
using parsers::AllocatorSnapshot;
using parsers::DeviceSummary;
using parsers::MemoryState;

namespace {

constexpr std::size_t kStacks = 20, kFrames = 12, kBlocks = 10, kSegments = 20'000, kLeaking = 20;

Json frames_json(const parsers::StackTable& stacks, parsers::StackId stack, std::size_t limit) {
  Json out = Json::array();
  for (const parsers::FrameId frame : stacks.frames_of(stack)) {
    if (out.size() >= limit) break;
    out.push_back({{"file", stacks.file_of(frame)}, {"line", stacks.frame_of(frame).line}, {"function", stacks.function_of(frame)}});
  }
  return out;
}

// Frames that tell a person where, then all.
Json stack_json(const AllocatorSnapshot& snapshot, parsers::StackId stack) {
  return {{"where", stack == 0 ? Json(nullptr) : Json(stack_text(snapshot.stacks, stack, 3))}, {"frames", frames_json(snapshot.stacks, stack, kFrames)}};
}

Json time_json(std::int64_t us) { return us > 0 ? Json(time_text(parsers::TimePoint(std::chrono::microseconds(us)))) : Json(nullptr); }

Json categories_json(const MemoryComposition& composition) {
  Json out = Json::array();
  for (const CategoryBytes& by : composition.categories)
    out.push_back({{"category", category_name(by.category)}, {"bytes", by.bytes}, {"guessed_bytes", by.guessed}, {"blocks", by.blocks},
                   {"basis", basis_name(Basis::measured)}});
  return out;
}

Json stacks_json(const AllocatorSnapshot& snapshot, const MemoryComposition& composition) {
  Json out = Json::array();
  for (const StackBytes& by : composition.stacks) {
    if (out.size() >= kStacks) break;
    Json entry = {{"bytes", by.bytes}, {"blocks", by.blocks}, {"largest_bytes", by.largest}, {"category", category_name(by.category)}};
    entry.update(stack_json(snapshot, by.stack));
    out.push_back(std::move(entry));
  }
  return out;
}

// Where in the model: the innermost frame outside PyTorch, all its stacks together.
Json modules_json(const AllocatorSnapshot& snapshot, const MemoryComposition& composition) {
  std::vector<std::pair<std::string, std::int64_t>> sums;
  for (const StackBytes& by : composition.stacks) {
    if (by.stack == 0) continue;
    std::string name = stack_text(snapshot.stacks, by.stack, 2);
    if (const auto cut = name.find(" < "); cut != std::string::npos) name.resize(cut);
    const auto found = std::ranges::find(sums, name, &std::pair<std::string, std::int64_t>::first);
    if (found == sums.end()) sums.emplace_back(std::move(name), by.bytes);
    else found->second += by.bytes;
  }
  std::ranges::stable_sort(sums, [](const auto& a, const auto& b) { return a.second > b.second; });
  Json out = Json::array();
  for (const auto& [name, bytes] : sums)
    if (out.size() < kStacks) out.push_back({{"module", name}, {"bytes", bytes}});
  return out;
}

Json state_json(const AllocatorSnapshot& snapshot, const MemoryState& state, const MemoryComposition& composition) {
  Json largest = Json::array();
  for (std::size_t i = 0; i < std::min(kBlocks, state.blocks.size()); ++i)
    largest.push_back({{"bytes", state.blocks[i].size}, {"address", state.blocks[i].address}, {"time", time_json(state.blocks[i].time_us)},
                       {"where", state.blocks[i].stack ? Json(stack_text(snapshot.stacks, state.blocks[i].stack, 3)) : Json(nullptr)}});
  return {{"allocated_bytes", state.allocated}, {"active_bytes", state.active},          {"reserved_bytes", state.reserved},
          {"time", time_json(state.time_us)},   {"event", state.event},                  {"blocks", state.blocks.size()},
          {"categories", categories_json(composition)}, {"top_stacks", stacks_json(snapshot, composition)}, {"modules", modules_json(snapshot, composition)},
          {"largest", largest}};
}

Json segments_json(const AllocatorSnapshot& snapshot, const DeviceSummary& device) {
  const parsers::SegmentTotals& totals = device.segments;
  Json list = Json::array();
  for (const parsers::SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device.device) continue;
    if (list.size() >= kSegments) break;
    list.push_back({{"address", segment.address}, {"bytes", segment.total_size}, {"active_bytes", segment.active_size}, {"blocks", segment.blocks},
                    {"kind", segment.large ? "large" : "small"}, {"expandable", segment.expandable}, {"stream", segment.stream},
                    {"pool", {segment.pool.first, segment.pool.second}}});
  }
  return {{"count", totals.count},       {"small", totals.small},   {"large", totals.large},           {"expandable", totals.expandable},
          {"private", totals.private_pool}, {"private_bytes", totals.private_bytes}, {"empty", totals.empty}, {"empty_bytes", totals.empty_bytes},
          {"largest_bytes", totals.largest}, {"list", list}};
}

Json fragmentation_json(const AllocatorSnapshot& snapshot, const parsers::Fragmentation& f) {
  Json pinned = Json::array();
  for (const parsers::PinnedBy& by : f.pinned) {
    Json entry = {{"segments", by.segments}, {"free_bytes", by.free_bytes}, {"live_bytes", by.live_bytes}};
    entry.update(stack_json(snapshot, by.stack));
    pinned.push_back(std::move(entry));
  }
  return {{"unallocated_bytes", f.unallocated}, {"inactive_split_bytes", f.inactive_split}, {"largest_free_bytes", f.largest_free},
          {"free_blocks", f.free_blocks},       {"blocked_request", f.blocked_request},     {"pinned", pinned}};
}

Json leak_json(const AllocatorSnapshot& snapshot, const std::optional<parsers::Leak>& leak) {
  if (!leak) return nullptr;
  Json stacks = Json::array();
  for (const parsers::GrowingStack& by : leak->stacks) {
    if (stacks.size() >= kLeaking) break;
    Json entry = {{"bytes_per_step", by.bytes_per_step}, {"bytes", by.bytes}};
    entry.update(stack_json(snapshot, by.stack));
    stacks.push_back(std::move(entry));
  }
  return {{"steps", leak->steps}, {"steps_by", leak->anchor ? "repetition" : "marks"}, {"bytes_per_step", leak->bytes_per_step}, {"steps_left", leak->steps_left ? Json(*leak->steps_left) : Json(nullptr)}, {"stacks", stacks}};
}

Json device_json(const AllocatorSnapshot& snapshot, const DeviceAnalysis& device) {
  const DeviceSummary& s = device.summary;
  Json out = {{"device", s.device},
              {"allocated_bytes", s.now.allocated},
              {"active_bytes", s.now.active},
              {"reserved_bytes", s.now.reserved},
              {"requested_bytes", s.requested},
              {"inactive_split_bytes", s.fragmentation.inactive_split},
              {"events", s.events},
              {"trace", s.events ? Json{{"start", time_json(s.first_us)}, {"end", time_json(s.last_us)}, {"whole", !s.trace_cut}, {"steps", s.step_ends.size()},
                                        {"reserved_peak_bytes", s.reserved_peak}}
                                 : Json(nullptr)}};
  out["peak"] = s.peak ? state_json(snapshot, *s.peak, *device.peak) : Json(nullptr);
  out["categories"] = categories_json(device.composition());
  out["top_stacks"] = stacks_json(snapshot, device.composition());
  out["now"] = state_json(snapshot, s.now, device.now);
  out["segments"] = segments_json(snapshot, s);
  out["fragmentation"] = fragmentation_json(snapshot, s.fragmentation);
  out["leak"] = leak_json(snapshot, s.leak);
  if (s.oom) {
    Json oom = {{"requested_bytes", s.oom->requested}, {"device_free_bytes", s.oom->device_free}, {"count", s.oom->count}, {"stream", s.oom->stream}};
    oom.update(stack_json(snapshot, s.oom->stack));
    oom["state"] = state_json(snapshot, s.oom->state, *device.oom);
    out["oom"] = std::move(oom);
  } else {
    out["oom"] = nullptr;
  }
  out["replay_check"] = nullptr;
  out["what_if"] = Json::array();
  out["faults"] = s.faults;
  return out;
}

Json settings_json(const parsers::AllocatorSettings& settings) {
  if (!settings.known) return nullptr;
  Json out = Json::object();
  for (const auto& [name, value] : settings.all) out[name] = value;
  return out;
}

}  // namespace

Json snapshot_json(const SnapshotAnalysis& analysis) {
  Json devices = Json::array();
  for (const DeviceAnalysis& device : analysis.devices) devices.push_back(device_json(analysis.snapshot, device));
  return {{"file", analysis.file},
          {"rank", analysis.rank ? Json(*analysis.rank) : Json(nullptr)},
          {"bytes", analysis.snapshot.bytes},
          {"whole", !analysis.snapshot.cut.has_value()},
          {"cut", analysis.snapshot.cut ? Json{{"offset", analysis.snapshot.cut->place() && analysis.snapshot.cut->place()->offset
                                                              ? Json(*analysis.snapshot.cut->place()->offset) : Json(nullptr)},
                                               {"message", analysis.snapshot.cut->message()}}
                                        : Json(nullptr)},
          {"allocator_settings", settings_json(analysis.snapshot.settings)},
          {"devices", devices}};
}

Json comparison_json(const SnapshotAnalysis& before, const SnapshotAnalysis& after) {
  Json devices = Json::array();
  for (const DeviceChange& change : compare_snapshots(before, after)) {
    const auto totals = [](const DeviceAnalysis* device) -> Json {
      if (!device) return nullptr;
      const MemoryState& state = device->state();
      return {{"allocated_bytes", state.allocated}, {"reserved_bytes", state.reserved}, {"inactive_split_bytes", device->summary.fragmentation.inactive_split}};
    };
    Json categories = Json::array(), stacks = Json::array();
    for (const CategoryChange& by : change.categories)
      categories.push_back({{"category", category_name(by.category)}, {"before_bytes", by.before}, {"after_bytes", by.after}, {"change_bytes", by.after - by.before}});
    for (const StackChange& by : change.stacks) {
      if (stacks.size() >= kStacks) break;
      stacks.push_back({{"where", by.stack}, {"category", category_name(by.category)}, {"before_bytes", by.before}, {"after_bytes", by.after},
                        {"change_bytes", by.after - by.before}});
    }
    devices.push_back({{"device", change.device}, {"before", totals(change.before)}, {"after", totals(change.after)}, {"categories", categories}, {"stacks", stacks}});
  }
  return {{"before", before.file}, {"after", after.file}, {"devices", devices}};
}

}  // namespace triage::daemon
