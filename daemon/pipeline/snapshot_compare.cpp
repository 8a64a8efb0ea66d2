#include "daemon/pipeline/snapshot_compare.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace triage::daemon {

using signatures::MemoryCategory;

namespace {

std::string frame_text(const parsers::StackTable& stacks, parsers::FrameId frame, bool whole_path) {
  std::string_view file = stacks.file_of(frame);
  if (!whole_path)
    if (const std::size_t slash = file.find_last_of('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(stacks.frame_of(frame).line) + " " + std::string(stacks.function_of(frame));
}

const DeviceAnalysis* device_of(const SnapshotAnalysis& analysis, int device) {
  for (const DeviceAnalysis& found : analysis.devices)
    if (found.summary.device == device) return &found;
  return nullptr;
}

}  // namespace

std::string stack_text(const parsers::StackTable& stacks, parsers::StackId stack, std::size_t frames) {
  std::string out;
  for (const parsers::FrameId frame : signatures::telling_frames(stacks, stack, frames)) out += (out.empty() ? "" : " < ") + frame_text(stacks, frame, false);
  return out.empty() ? "(no Python frames)" : out;
}

std::vector<DeviceChange> compare_snapshots(const SnapshotAnalysis& before, const SnapshotAnalysis& after) {
  std::vector<int> devices;
  for (const SnapshotAnalysis* const side : {&before, &after})
    for (const DeviceAnalysis& device : side->devices) devices.push_back(device.summary.device);
  std::ranges::sort(devices);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());

  std::vector<DeviceChange> changes;
  for (const int number : devices) {
    DeviceChange change;
    change.device = number;
    change.before = device_of(before, number);
    change.after = device_of(after, number);
    std::map<MemoryCategory, CategoryChange> categories;
    std::map<std::string, StackChange> stacks;           // by all frames
    const auto take = [&](const SnapshotAnalysis& side, const DeviceAnalysis* device, bool is_after) {
      if (!device) return;
      for (const signatures::CategoryBytes& by : device->composition().categories) {
        CategoryChange& entry = categories[by.category];
        entry.category = by.category;
        (is_after ? entry.after : entry.before) += by.bytes;
      }
      for (const signatures::StackBytes& by : device->composition().stacks) {
        std::string key(signatures::category_name(by.category));
        for (const parsers::FrameId frame : side.snapshot.stacks.frames_of(by.stack)) key += "\n" + frame_text(side.snapshot.stacks, frame, true);
        StackChange& entry = stacks[key];
        if (entry.stack.empty()) {
          for (const parsers::FrameId frame : signatures::telling_frames(side.snapshot.stacks, by.stack, 3))
            entry.stack += (entry.stack.empty() ? "" : " < ") + frame_text(side.snapshot.stacks, frame, false);
          if (entry.stack.empty()) entry.stack = "(no Python frames)";
        }
        entry.category = by.category;
        (is_after ? entry.after : entry.before) += by.bytes;
      }
    };
    take(before, change.before, false);
    take(after, change.after, true);
    for (const auto& [category, entry] : categories) change.categories.push_back(entry);
    for (auto& [key, entry] : stacks)
      if (entry.before != entry.after) change.stacks.push_back(std::move(entry));
    const auto larger = [](const auto& a, const auto& b) { return std::llabs(a.after - a.before) > std::llabs(b.after - b.before); };
    std::ranges::stable_sort(change.categories, larger);
    std::ranges::stable_sort(change.stacks, larger);
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace triage::daemon
