#include "daemon/http/snapshot_html.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_compare.hpp"
#include "parsers/base/embedded_file.hpp"

namespace triage::daemon {

std::span<const parsers::EmbeddedFile> snapshot_page();    // compiled in, daemon/http/page

using namespace signatures;

namespace {

constexpr std::size_t kStacks = 4000, kFrames = 80, kSegments = 3000, kBlocks = 60'000;

// Categories as they lie over one another in the timeline: what stays at the bottom, what comes and goes at the top.
constexpr MemoryCategory kDrawn[] = {MemoryCategory::weights,     MemoryCategory::optimizer, MemoryCategory::gradients, MemoryCategory::buffers,  MemoryCategory::cuda_graphs,
                                     MemoryCategory::unattributed, MemoryCategory::activations, MemoryCategory::logits,  MemoryCategory::temporary};

std::string frame_text(const parsers::StackTable& stacks, parsers::FrameId frame) {
  std::string_view file = stacks.file_of(frame);
  // The last two parts of the path tell it from others of the same name.
  std::size_t slash = file.find_last_of('/');
  if (slash != std::string_view::npos && slash > 0) slash = file.find_last_of('/', slash - 1);
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(stacks.function_of(frame)) + "  " + std::string(file) + ":" + std::to_string(stacks.frame_of(frame).line);
}

Json device_json(const SnapshotAnalysis& analysis, const DeviceAnalysis& device, std::vector<std::int64_t>& frame_numbers, Json& frame_texts) {
  const parsers::DeviceSummary& s = device.summary;
  const parsers::AllocatorSnapshot& snapshot = analysis.snapshot;
  Json facts = Json::array();
  const auto fact = [&](const char* name, auto value, bool bad = false) { facts.push_back({name, value, bad}); };
  fact("allocated", s.now.allocated);
  fact("reserved", s.now.reserved);
  if (s.peak) fact("peak allocated", s.peak->allocated);
  fact("reserved, unallocated", s.fragmentation.unallocated);
  fact("largest free block", s.fragmentation.largest_free);
  if (s.oom) {
    fact("the failed request", s.oom->requested, true);
    fact("free on the device then", s.oom->device_free, true);
  }
  if (s.leak) fact("grows per step", s.leak->bytes_per_step, true);
  fact("events", std::to_string(s.events));
  Json categories = Json::array();
  for (const CategoryBytes& by : device.composition().categories) categories.push_back({category_name(by.category), by.bytes, by.guessed});
  Json timeline = Json::array(), groups = Json::array(), areas = Json::array();
  for (const MemoryCategory category : kDrawn) groups.push_back(category_name(category));
  for (const parsers::TimelinePoint& point : s.timeline) {
    timeline.push_back({point.time_us, point.allocated_low, point.allocated_high, point.reserved});
    Json area = Json::array();
    for (const MemoryCategory category : kDrawn) area.push_back(point.groups[static_cast<std::size_t>(category)]);
    areas.push_back(std::move(area));
  }
  const std::size_t stretch = s.timeline_stretch;
  const auto point_of = [&](std::size_t event) { return event == 0 || s.timeline.empty() ? Json(nullptr) : Json(std::min((event - 1) / stretch, s.timeline.size() - 1)); };
  Json steps = Json::array();
  for (const std::int64_t end : s.step_ends) {
    const auto at = std::ranges::lower_bound(s.timeline, end, {}, &parsers::TimelinePoint::time_us);
    if (at != s.timeline.end()) steps.push_back(at - s.timeline.begin());
  }

  Json stacks = Json::array();
  std::vector<std::int64_t> number_of(snapshot.stacks.stacks(), -1);
  const auto add_stack = [&](const StackBytes& by) {
    if (stacks.size() >= kStacks) return;
    Json frames = Json::array();
    const auto of = snapshot.stacks.frames_of(by.stack);
    for (auto frame = of.rbegin(); frame != of.rend() && frames.size() < kFrames; ++frame) {   // outermost first
      std::int64_t& number = frame_numbers[*frame];
      if (number < 0) {
        number = static_cast<std::int64_t>(frame_texts.size());
        frame_texts.push_back(frame_text(snapshot.stacks, *frame));
      }
      frames.push_back(number);
    }
    if (by.stack < number_of.size() && number_of[by.stack] < 0) number_of[by.stack] = static_cast<std::int64_t>(stacks.size());
    stacks.push_back({{"b", by.bytes}, {"n", by.blocks}, {"c", category_name(by.category)}, {"w", by.stack ? stack_text(snapshot.stacks, by.stack, 3) : ""}, {"f", std::move(frames)}});
  };
  for (const StackBytes& by : device.composition().stacks) add_stack(by);
  for (StackBytes by : device.now.stacks)
    if (by.stack < number_of.size() && number_of[by.stack] < 0) {   // lives now, not at that moment: in the map alone
      by.bytes = 0;
      by.blocks = 0;
      add_stack(by);
    }
  StackJudge judge(snapshot.stacks);
  Json states = Json::array();
  for (const parsers::TimelineState& state : s.timeline_states) {
    Json live = Json::array();
    for (const auto& [stack, bytes] : state.stacks) {
      if (number_of[stack] < 0) add_stack({stack, judge.judge(stack).category, 0, 0, 0});
      if (number_of[stack] >= 0) live.push_back({number_of[stack], bytes});
    }
    states.push_back({{"p", state.point}, {"s", std::move(live)}});
  }

  std::vector<const parsers::SnapshotSegment*> order;
  for (const parsers::SnapshotSegment& segment : snapshot.segments)
    if (segment.device == s.device && segment.total_size > 0) order.push_back(&segment);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->total_size > b->total_size; });
  Json segments = Json::array();
  std::size_t blocks = 0;
  for (const parsers::SnapshotSegment* const segment : order) {
    if (segments.size() >= kSegments || blocks >= kBlocks) break;
    Json list = Json::array();
    for (const parsers::SnapshotBlock& block : snapshot.blocks_of(*segment)) {
      list.push_back({block.size, static_cast<int>(block.state), block.stack && block.stack < number_of.size() ? number_of[block.stack] : -1});
      ++blocks;
    }
    std::string name = segment->large ? "large pool" : "small pool";
    if (!segment->pool.is_default()) name += ", private";
    if (segment->expandable) name += ", expandable";
    segments.push_back({{"x", segment->address}, {"b", segment->total_size}, {"a", segment->active_size}, {"n", name}, {"k", std::move(list)}});
  }
  const std::string moment = s.oom ? "What filled it when the allocation failed" : s.peak ? "What filled it at the peak" : "What fills it";
  return {{"device", s.device}, {"weight", s.now.reserved}, {"events", s.events}, {"facts", facts}, {"moment", moment}, {"categories", categories}, {"timeline", timeline}, {"groups", groups},
          {"areas", areas}, {"stretch", stretch}, {"steps", steps}, {"steps_marked", s.steps_marked}, {"peak_point", point_of(s.peak ? s.peak->event : 0)},
          {"oom_point", point_of(s.oom ? s.oom->state.event : 0)}, {"states", states}, {"stacks", stacks}, {"segments", segments}};
}

}  // namespace

Json snapshot_graph_json(const SnapshotAnalysis& analysis) {
  Json frames = Json::array(), devices = Json::array();
  std::vector<std::int64_t> frame_numbers(analysis.snapshot.stacks.frames(), -1);
  for (const DeviceAnalysis& device : analysis.devices) devices.push_back(device_json(analysis, device, frame_numbers, frames));
  std::string note = "allocator snapshot of PyTorch";
  if (!analysis.snapshot.settings.configuration.empty()) note += ", PYTORCH_CUDA_ALLOC_CONF=" + analysis.snapshot.settings.configuration;
  if (analysis.snapshot.cut) note += ", cut: " + analysis.snapshot.cut->message();
  return {{"file", analysis.file}, {"note", note}, {"frames", std::move(frames)}, {"devices", std::move(devices)}};
}

std::string snapshot_html(const SnapshotAnalysis& analysis) {
  const std::string data = json_text(snapshot_graph_json(analysis), -1);
  std::string safe;   // no text of the file may end the script element
  safe.reserve(data.size());
  for (const char c : data) {
    if (c == '<') safe += "\\u003c";
    else safe += c;
  }
  const std::string_view page = snapshot_page().front().text;
  const std::size_t at = page.find("@DATA@");
  std::string out(page.substr(0, at));
  out += safe;
  out += page.substr(at + 6);
  return out;
}

}  // namespace triage::daemon
