#include "daemon/cli/snapshot_view.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "daemon/cli/page.hpp"
#include "daemon/pipeline/snapshot_compare.hpp"
#include "parsers/base/quantity.hpp"

namespace triage::daemon {

using namespace signatures;
using parsers::Bytes;
using parsers::DeviceSummary;
using parsers::MemoryState;

namespace {

constexpr std::size_t kStacks = 6, kPinned = 3, kLeaking = 3, kChanges = 10, kLine = 220;

std::string size(std::int64_t bytes) { return parsers::bytes_text(Bytes(bytes)); }

std::string change(std::int64_t bytes) { return (bytes > 0 ? "+" : "") + size(bytes); }

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string share(std::int64_t part, std::int64_t whole) {
  char room[16];
  (void)std::snprintf(room, sizeof room, "%5.1f %%", whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0);
  return room;
}

std::string count_text(std::size_t count, const char* one, const char* many) { return std::to_string(count) + " " + (count == 1 ? one : many); }

std::string where(const SnapshotAnalysis& analysis, parsers::StackId stack, std::size_t frames) {
  if (stack == 0) return "(no Python frames: the autograd thread, or nothing was recorded)";
  return one_line(stack_text(analysis.snapshot.stacks, stack, frames), kLine);
}

// The words of a category for people.
std::string category_words(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::optimizer: return "optimizer states";
    case MemoryCategory::logits: return "logits and loss";
    case MemoryCategory::buffers: return "communication buffers";
    case MemoryCategory::cuda_graphs: return "CUDA graph and private pools";
    case MemoryCategory::temporary: return "temporary (backward, optimizer step)";
    default: return std::string(category_name(category));
  }
}

void show_categories(Page& page, const std::string& label, const MemoryComposition& composition, std::int64_t whole) {
  std::string first = label;
  for (const CategoryBytes& by : composition.categories) {
    if (by.bytes * 1000 < whole && by.bytes < (64 << 20)) continue;
    std::string text = padded(size(by.bytes), 11) + " " + share(by.bytes, whole) + "  " + category_words(by.category);
    if (by.guessed * 20 > by.bytes) text += "  (" + guessed_text(by.guessed, by.bytes) + ": no frame says so)";
    page.row(first, text);
    first.clear();
  }
}

void show_stacks(Page& page, const SnapshotAnalysis& analysis, const MemoryComposition& composition, std::int64_t whole) {
  std::string label = "where";
  std::size_t shown = 0;
  for (const StackBytes& by : composition.stacks) {
    if (shown++ == kStacks || by.bytes * 100 < whole) break;
    page.row(label, padded(size(by.bytes), 11) + " in " + count_text(by.blocks, "block", "blocks") + "  " + std::string(category_name(by.category)) + "  " +
                        where(analysis, by.stack, 3));
    label.clear();
  }
}

void show_fragmentation(Page& page, const SnapshotAnalysis& analysis, const DeviceSummary& s) {
  const parsers::Fragmentation& f = s.fragmentation;
  if (f.unallocated <= 0) return;
  page.row("free in it", size(f.unallocated) + " reserved but unallocated, largest block " + size(f.largest_free) + "; " + size(s.segments.empty_bytes) +
                              " in empty segments, " + size(f.inactive_split) + " beside live blocks");
  const bool much = f.unallocated > s.now.reserved / 10;
  if (much && f.blocked_request && s.oom)
    page.under("The failed request of " + size(s.oom->requested) + " is smaller than that sum, but no single block held it: fragmentation.");
  if (!much) return;
  for (std::size_t i = 0; i < std::min(kPinned, f.pinned.size()); ++i) {
    const parsers::PinnedBy& by = f.pinned[i];
    if (by.free_bytes * 20 < f.unallocated) break;
    page.under(size(by.free_bytes) + " is held back in " + count_text(by.segments, "segment", "segments") + " by " + size(by.live_bytes) + " of live blocks from " +
               where(analysis, by.stack, 2));
  }
}

void show_leak(Page& page, const SnapshotAnalysis& analysis, const DeviceSummary& s) {
  if (!s.leak) return;
  std::string left;
  if (s.leak->steps_left && *s.leak->steps_left < 1e6) {
    char steps[32];
    (void)std::snprintf(steps, sizeof steps, "%.0f", *s.leak->steps_left);
    left = analysis.device_bytes > 0 ? "; the device is full in about " + std::string(steps) + " steps" : "; what is free in the cache is used up in about " + std::string(steps) + " steps";
  }
  page.strong("grows", change(s.leak->bytes_per_step) + " per step over " + std::to_string(s.leak->steps) + " steps" + left);
  if (s.leak->anchor) page.under("(no steps are marked: counted are the turns of the loop at " + where(analysis, s.leak->anchor, 1) + ")");
  for (std::size_t i = 0; i < std::min(kLeaking, s.leak->stacks.size()); ++i)
    page.under(change(s.leak->stacks[i].bytes_per_step) + " per step  " + where(analysis, s.leak->stacks[i].stack, 3));
}

void show_device(Page& page, const SnapshotAnalysis& analysis, const DeviceAnalysis& device) {
  const DeviceSummary& s = device.summary;
  const MemoryState& state = device.state();
  std::string head = "GPU " + std::to_string(s.device) + ": ";
  if (s.oom) head += "out of memory, " + size(s.oom->requested) + " asked for, " + size(s.oom->device_free) + " free on the device";
  else head += size(s.now.allocated) + " allocated, " + size(s.now.reserved) + " reserved";
  page.head(head);
  if (s.oom) page.row("asked by", where(analysis, s.oom->stack, 3) + (s.oom->count > 1 ? "  (the last of " + std::to_string(s.oom->count) + ")" : ""));
  std::string memory = "allocated " + size(s.now.allocated) + ", reserved " + size(s.now.reserved) + " in " + count_text(s.segments.count, "segment", "segments");
  if (s.peak) memory += "; peak allocated " + size(s.peak->allocated) + ", reserved " + size(s.reserved_peak);
  page.row("memory", memory);
  const char* const moment = s.oom ? "at failure" : s.peak ? "at peak" : "held by";
  show_categories(page, moment, device.composition(), state.allocated);
  show_stacks(page, analysis, device.composition(), state.allocated);
  show_fragmentation(page, analysis, s);
  show_leak(page, analysis, s);
  if (s.events == 0) page.row("no trace", "the file has no events: peak, growth and the failure are unknown. Record with torch.cuda.memory._record_memory_history(max_entries=1000000)");
  else if (s.trace_cut) page.row("trace", std::to_string(s.events) + " events; the start is missing (ring buffer full, or recording began late), it was worked back from the end");
  for (const std::string& fault : s.faults) page.row("doubt", fault);
}

std::string file_text(const SnapshotAnalysis& analysis) {
  std::string text = one_line(analysis.file, kLine);
  const auto& settings = analysis.snapshot.settings;
  if (!settings.configuration.empty()) text += "  (PYTORCH_CUDA_ALLOC_CONF=" + one_line(settings.configuration, 120) + ")";
  return text;
}

void show_cut(Page& page, const SnapshotAnalysis& analysis) {
  if (!analysis.snapshot.cut) return;
  const auto& place = analysis.snapshot.cut->place();
  page.row("cut", analysis.snapshot.cut->message() + (place && place->offset ? ", at byte " + std::to_string(*place->offset) : "") +
                      (analysis.snapshot.segments_whole ? "; the segments are whole" : "; segments are missing, sums are too small"));
}

std::string rank_name(const SnapshotAnalysis& analysis) { return analysis.rank ? "rank " + std::to_string(*analysis.rank) : one_line(analysis.file, 60); }

}  // namespace

std::string snapshot_text(const SnapshotAnalysis& analysis, const TextStyle& style) {
  Page page(style);
  page.line(file_text(analysis));
  show_cut(page, analysis);
  std::size_t idle = 0;
  for (const DeviceAnalysis& device : analysis.devices) {
    if (analysis.devices.size() > 1 && device.summary.now.reserved == 0 && device.summary.events == 0) {
      ++idle;
      continue;
    }
    show_device(page, analysis, device);
  }
  if (analysis.devices.empty()) page.row("empty", "no device had memory reserved, and no event was recorded");
  if (idle) page.row("idle", count_text(idle, "device", "devices"));
  return page.take();
}

std::string rank_table_text(std::span<const SnapshotAnalysis> ranks, const TextStyle& style) {
  struct Row {
    const SnapshotAnalysis* analysis;
    const DeviceAnalysis* device;
    std::int64_t peak;
  };
  std::vector<Row> rows;
  for (const SnapshotAnalysis& analysis : ranks)
    for (const DeviceAnalysis& device : analysis.devices) rows.push_back({&analysis, &device, device.summary.peak ? device.summary.peak->allocated : device.summary.now.allocated});
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.analysis->rank.value_or(1 << 30); });
  Page page(style);
  std::size_t width = 4;
  for (const Row& row : rows) width = std::max(width, rank_name(*row.analysis).size());
  std::string head = "rank";
  head.resize(width, ' ');
  page.head(head + "  GPU    allocated     reserved         peak   free in it  first");
  std::vector<std::int64_t> peaks;
  for (const Row& row : rows) {
    const DeviceSummary& s = row.device->summary;
    std::string name = rank_name(*row.analysis);
    name.resize(width, ' ');
    std::string line = name + "  " + padded(std::to_string(s.device), 3) + " " + padded(size(s.now.allocated), 12) + " " + padded(size(s.now.reserved), 12) + " " +
                       padded(size(row.peak), 12) + " " + padded(size(s.fragmentation.unallocated), 12) + "  ";
    if (s.oom) line += "OUT OF MEMORY, asked " + size(s.oom->requested) + "; ";
    const auto& categories = row.device->composition().categories;
    if (!categories.empty()) line += std::string(category_name(categories.front().category)) + " " + size(categories.front().bytes);
    page.line(line);
    peaks.push_back(row.peak);
  }
  if (rows.size() < 2) return page.take();
  std::vector<std::int64_t> sorted = peaks;
  std::ranges::sort(sorted);
  const std::int64_t median = sorted[sorted.size() / 2];
  page.blank();
  bool uneven = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // A tenth more or less than the middle rank is no noise of one allocation.
    if (std::max(peaks[i] - median, median - peaks[i]) * 10 <= median) continue;
    uneven = true;
    std::string text = rank_name(*rows[i].analysis) + " GPU " + std::to_string(rows[i].device->summary.device) + " " + change(peaks[i] - median) + " against the middle of " + size(median);
    // Which category makes the difference to the middle rank?
    const auto middle = std::ranges::find(peaks, median);
    const Row& other = rows[static_cast<std::size_t>(middle - peaks.begin())];
    std::int64_t most = 0;
    std::string name;
    for (const CategoryBytes& by : rows[i].device->composition().categories) {
      std::int64_t theirs = 0;
      for (const CategoryBytes& by_other : other.device->composition().categories)
        if (by_other.category == by.category) theirs = by_other.bytes;
      if (std::max(by.bytes - theirs, theirs - by.bytes) > std::max(most, -most)) {
        most = by.bytes - theirs;
        name = category_name(by.category);
      }
    }
    if (!name.empty()) text += ", mostly " + name + " (" + change(most) + ")";
    page.row("uneven", text);
  }
  if (!uneven) page.row("even", "all within a tenth of " + size(median));
  return page.take();
}

std::string comparison_text(const SnapshotAnalysis& before, const SnapshotAnalysis& after, const TextStyle& style) {
  Page page(style);
  page.line("before  " + file_text(before));
  page.line("after   " + file_text(after));
  for (const DeviceChange& device : compare_snapshots(before, after)) {
    page.head("GPU " + std::to_string(device.device));
    if (!device.before || !device.after) {
      page.row("only", device.before ? "before" : "after");
      continue;
    }
    const MemoryState &b = device.before->state(), &a = device.after->state();
    page.row("allocated", size(b.allocated) + " -> " + size(a.allocated) + "  (" + change(a.allocated - b.allocated) + ")");
    page.row("reserved", size(b.reserved) + " -> " + size(a.reserved) + "  (" + change(a.reserved - b.reserved) + ")");
    for (const CategoryChange& by : device.categories) {
      if (by.before == by.after) continue;
      page.row("", padded(change(by.after - by.before), 12) + "  " + category_words(by.category) + ": " + size(by.before) + " -> " + size(by.after));
    }
    std::string label = "where";
    for (std::size_t i = 0; i < std::min(kChanges, device.stacks.size()); ++i) {
      const StackChange& by = device.stacks[i];
      page.row(label, padded(change(by.after - by.before), 12) + "  " + one_line(by.stack, kLine));
      label.clear();
    }
  }
  return page.take();
}

}  // namespace triage::daemon
