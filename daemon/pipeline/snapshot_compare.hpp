// What changed between two snapshots: totals, categories and call stacks of one device. Stacks are the same when their frames are the same
// texts, whatever the numbers within each file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/pipeline/snapshot_file.hpp"

namespace triage::daemon {

struct StackChange {
  std::string stack;                          // telling frames, "a.py:1 f < b.py:2 g"
  signatures::MemoryCategory category = signatures::MemoryCategory::unattributed;
  std::int64_t before = 0, after = 0;         // bytes
};
struct CategoryChange {
  signatures::MemoryCategory category = signatures::MemoryCategory::unattributed;
  std::int64_t before = 0, after = 0;
};
struct DeviceChange {
  int device = 0;
  const DeviceAnalysis* before = nullptr;     // null: the device is not in that file
  const DeviceAnalysis* after = nullptr;
  std::vector<CategoryChange> categories;     // largest change first
  std::vector<StackChange> stacks;            // largest change first
};

// Devices of both files at the moment that matters most of each. The analyses must outlive the result.
std::vector<DeviceChange> compare_snapshots(const SnapshotAnalysis& before, const SnapshotAnalysis& after);

// "modeling_llama.py:175 forward < train.py:48 train"; "(no Python frames)" for a block without a stack.
std::string stack_text(const parsers::StackTable& stacks, parsers::StackId stack, std::size_t frames);

}  // namespace triage::daemon
