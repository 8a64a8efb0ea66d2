#include "daemon/http/snapshot_html.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_compare.hpp"
#include "parsers/base/embedded_file.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

std::span<const parsers::EmbeddedFile> snapshot_page();    // compiled in, daemon/http/page

using namespace signatures;

namespace {

constexpr std::size_t kFrames = 80;

// Categories as they lie over one another in the timeline: what stays at the bottom, what comes and goes at the top.
constexpr MemoryCategory kDrawn[] = {MemoryCategory::weights,     MemoryCategory::optimizer, MemoryCategory::gradients, MemoryCategory::buffers,  MemoryCategory::cuda_graphs,
                                     MemoryCategory::unattributed, MemoryCategory::activations, MemoryCategory::logits,  MemoryCategory::temporary};

std::string frame_text(const parsers::StackTable& stacks, parsers::FrameId frame) {
  std::string_view file = stacks.file_of(frame);
  // The last two parts of the path tell it from others of the same name.
  std::size_t slash = file.find_last_of('/');
  if (slash != std::string_view::npos && slash > 0) slash = file.find_last_of('/', slash - 1);
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return parsers::visible(std::string(stacks.function_of(frame)) + "  " + std::string(file) + ":" + std::to_string(stacks.frame_of(frame).line));
}

// Neighbours as one: lowest and highest of allocated, highest of reserved, time of the first.
Json merged_json(std::span<const parsers::TimelinePoint> points, std::size_t merged) {
  Json out = Json::array();
  for (std::size_t i = 0; i < points.size(); i += merged) {
    parsers::TimelinePoint sum = points[i];
    for (const parsers::TimelinePoint& point : points.subspan(i, std::min(merged, points.size() - i))) {
      sum.allocated_low = std::min(sum.allocated_low, point.allocated_low);
      sum.allocated_high = std::max(sum.allocated_high, point.allocated_high);
      sum.reserved = std::max(sum.reserved, point.reserved);
    }
    out.push_back({sum.time_us, sum.allocated_low, sum.allocated_high, sum.reserved});
  }
  return out;
}

// Points that become one, so that at most `most` are left.
std::size_t merge_of(std::size_t points, std::size_t most) { return most == 0 || points <= most ? 1 : points / most + (points % most != 0); }

Json device_json(const SnapshotAnalysis& analysis, const DeviceAnalysis& device, const GraphSize& size, std::vector<std::int64_t>& frame_numbers, Json& frame_texts) {
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
  const std::size_t merged = merge_of(s.timeline.size(), size.points), stretch = s.timeline_stretch * merged;
  Json timeline = merged_json(s.timeline, merged), groups = Json::array(), areas = Json::array();
  if (size.over_time) {
    for (const MemoryCategory category : kDrawn) groups.push_back(category_name(category));
    for (std::size_t i = 0; i < s.timeline.size(); i += merged) {
      Json area = Json::array();
      for (const MemoryCategory category : kDrawn) area.push_back(s.timeline[i].groups[static_cast<std::size_t>(category)]);
      areas.push_back(std::move(area));
    }
  }
  const auto point_of = [&](std::size_t event) { return event == 0 || s.timeline.empty() ? Json(nullptr) : Json(std::min((event - 1) / stretch, timeline.size() - 1)); };
  Json steps = Json::array();
  for (const std::int64_t end : s.step_ends) {
    const auto at = std::ranges::lower_bound(s.timeline, end, {}, &parsers::TimelinePoint::time_us);
    if (at != s.timeline.end()) steps.push_back(static_cast<std::size_t>(at - s.timeline.begin()) / merged);
  }

  Json stacks = Json::array();
  std::vector<std::int64_t> number_of(snapshot.stacks.stacks(), -1);
  struct Folded {
    std::int64_t number = -1;
    std::int64_t bytes = 0;
    std::size_t blocks = 0, stacks = 0;
  };
  std::map<MemoryCategory, Folded> folded;
  const auto add_stack = [&](const StackBytes& by) {
    if (stacks.size() >= size.stacks) {                        // small ones as one of their category
      Folded& sum = folded[by.category];
      if (sum.number < 0) {
        sum.number = static_cast<std::int64_t>(stacks.size());
        stacks.push_back(nullptr);
      }
      sum.bytes += by.bytes;
      sum.blocks += by.blocks;
      ++sum.stacks;
      if (by.stack < number_of.size() && number_of[by.stack] < 0) number_of[by.stack] = sum.number;
      return;
    }
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
    stacks.push_back({{"b", by.bytes}, {"n", by.blocks}, {"c", category_name(by.category)}, {"w", by.stack ? parsers::visible(stack_text(snapshot.stacks, by.stack, 3)) : ""}, {"f", std::move(frames)}});
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
  for (const parsers::TimelineState& state : size.over_time ? std::span(s.timeline_states) : std::span<const parsers::TimelineState>()) {
    Json live = Json::array();
    for (const auto& [stack, bytes] : state.stacks) {
      if (number_of[stack] < 0) add_stack({stack, judge.judge(stack).category, 0, 0, 0});
      if (number_of[stack] >= 0) live.push_back({number_of[stack], bytes});
    }
    states.push_back({{"p", state.point / merged}, {"s", std::move(live)}});
  }

  for (const auto& [category, sum] : folded) {
    const std::string name = "(" + std::to_string(sum.stacks) + " smaller stacks)";
    stacks[static_cast<std::size_t>(sum.number)] = {{"b", sum.bytes}, {"n", sum.blocks}, {"c", category_name(category)}, {"w", name}, {"f", {frame_texts.size()}}};
    frame_texts.push_back(name);
  }

  std::vector<const parsers::SnapshotSegment*> order;
  for (const parsers::SnapshotSegment& segment : snapshot.segments)
    if (segment.device == s.device && segment.total_size > 0) order.push_back(&segment);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->total_size > b->total_size; });
  Json segments = Json::array();
  std::size_t blocks = 0;
  for (const parsers::SnapshotSegment* const segment : order) {
    if (segments.size() >= size.segments || blocks >= size.blocks) break;
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
  return {{"device", s.device}, {"weight", s.now.reserved}, {"events", s.events}, {"facts", facts}, {"doubts", s.faults}, {"moment", moment}, {"categories", categories}, {"timeline", timeline}, {"groups", groups},
          {"areas", areas}, {"stretch", stretch}, {"points", s.timeline.size()}, {"merged", merged}, {"steps", steps}, {"steps_marked", s.steps_marked}, {"peak_point", point_of(s.peak ? s.peak->event : 0)},
          {"oom_point", point_of(s.oom ? s.oom->state.event : 0)}, {"states", states}, {"stacks", stacks}, {"segments", segments}};
}

}  // namespace

Json timeline_part_json(const DeviceAnalysis& device, std::size_t from, std::size_t to, std::size_t points) {
  const std::vector<parsers::TimelinePoint>& all = device.summary.timeline;
  from = std::min(from, all.size());
  to = std::clamp(to, from, all.size());
  const std::size_t merged = merge_of(to - from, points);
  return {{"from", from}, {"merged", merged}, {"timeline", merged_json(std::span(all).subspan(from, to - from), merged)}};
}

Json snapshot_graph_json(const SnapshotAnalysis& analysis, const GraphSize& size) {
  Json frames = Json::array(), devices = Json::array();
  std::vector<std::int64_t> frame_numbers(analysis.snapshot.stacks.frames(), -1);
  for (const DeviceAnalysis& device : analysis.devices) devices.push_back(device_json(analysis, device, size, frame_numbers, frames));
  std::string note = "allocator snapshot of PyTorch";
  if (!analysis.snapshot.settings.configuration.empty()) note += ", PYTORCH_CUDA_ALLOC_CONF=" + analysis.snapshot.settings.configuration;
  if (analysis.snapshot.cut) note += ", cut: " + analysis.snapshot.cut->message();
  return {{"file", parsers::visible(analysis.file)}, {"note", parsers::visible(note)}, {"frames", std::move(frames)}, {"devices", std::move(devices)}};
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
