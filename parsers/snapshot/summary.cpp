#include "parsers/snapshot/summary.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "parsers/base/limits.hpp"
#include "parsers/snapshot/live_map.hpp"
#include "parsers/snapshot/repeats.hpp"
#include "parsers/snapshot/step_growth.hpp"
#include "parsers/snapshot/timeline_recorder.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kFaultsKept = 8;
constexpr std::size_t kStepsKept = 64;       // step ends that are compared: the last ones
constexpr std::size_t kPinnedKept = 16;

// Sums of a hostile file may run over; a wrong figure is all that may follow.
void add(std::int64_t& sum, std::int64_t value) { sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(value)); }
void take(std::int64_t& sum, std::int64_t value) { sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) - static_cast<std::uint64_t>(value)); }

void sort_blocks(MemoryState& state) {
  std::ranges::sort(state.blocks, [](const LiveBlock& a, const LiveBlock& b) { return a.size != b.size ? a.size > b.size : a.address < b.address; });
}

// Everything that the segments and blocks at the dump tell.
void read_segments(const AllocatorSnapshot& snapshot, DeviceSummary& out) {
  std::map<StackId, PinnedBy> pinned;
  std::size_t faults = 0;
  const auto fault = [&](std::string text) {
    if (faults++ < kFaultsKept) out.faults.push_back(std::move(text));
  };
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != out.device) continue;
    const std::span<const SnapshotBlock> blocks = snapshot.blocks_of(segment);
    std::int64_t sum = 0, active = 0, allocated = 0, free = 0, largest_live = 0;
    StackId holder = 0;
    for (const SnapshotBlock& block : blocks) {
      if (block.size < 0 || __builtin_add_overflow(sum, block.size, &sum)) {
        fault("a block at address " + std::to_string(block.address) + " has an impossible size of " + std::to_string(block.size) + " bytes");
        continue;
      }
      if (block.state == BlockState::inactive) {
        free += block.size;
        ++out.fragmentation.free_blocks;
        out.fragmentation.largest_free = std::max(out.fragmentation.largest_free, block.size);
        continue;
      }
      active += block.size;
      if (block.size > largest_live) {
        largest_live = block.size;
        holder = block.stack;
      }
      if (block.state != BlockState::allocated) continue;
      allocated += block.size;
      add(out.requested, std::clamp<std::int64_t>(block.requested_size, 0, block.size));
      out.now.blocks.push_back({block.address, block.size, 0, block.stack, !segment.pool.is_default()});
    }
    if (segment.total_size < 0) {
      fault("the segment at address " + std::to_string(segment.address) + " has an impossible size of " + std::to_string(segment.total_size) + " bytes");
      continue;
    }
    if (!blocks.empty() && sum != segment.total_size)
      fault("the blocks of the segment at address " + std::to_string(segment.address) + " add up to " + std::to_string(sum) + " bytes, the segment has " +
            std::to_string(segment.total_size));
    if (!blocks.empty() && segment.active_size != active)
      fault("the segment at address " + std::to_string(segment.address) + " says " + std::to_string(segment.active_size) + " active bytes, its blocks " +
            std::to_string(active));
    add(out.now.allocated, allocated);
    add(out.now.active, active);
    if (__builtin_add_overflow(out.now.reserved, segment.total_size, &out.now.reserved)) fault("the segments add up to more than 64 bits hold");
    SegmentTotals& totals = out.segments;
    ++totals.count;
    ++(segment.large ? totals.large : totals.small);
    if (segment.expandable) ++totals.expandable;
    totals.largest = std::max(totals.largest, segment.total_size);
    if (!segment.pool.is_default()) {
      ++totals.private_pool;
      add(totals.private_bytes, segment.total_size);
    }
    if (active == 0) {
      ++totals.empty;
      add(totals.empty_bytes, segment.total_size);
      continue;
    }
    add(out.fragmentation.inactive_split, free);
    if (free >= segment.total_size - free) {
      PinnedBy& by = pinned[holder];
      by.stack = holder;
      ++by.segments;
      add(by.free_bytes, free);
      add(by.live_bytes, active);
    }
  }
  if (faults > kFaultsKept) out.faults.push_back(std::to_string(faults - kFaultsKept) + " more sums that cannot be");
  out.fragmentation.unallocated = out.now.reserved;
  take(out.fragmentation.unallocated, out.now.active);
  for (const auto& [stack, by] : pinned) out.fragmentation.pinned.push_back(by);
  std::ranges::sort(out.fragmentation.pinned, [](const PinnedBy& a, const PinnedBy& b) { return a.free_bytes > b.free_bytes; });
  if (out.fragmentation.pinned.size() > kPinnedKept) out.fragmentation.pinned.resize(kPinnedKept);
  sort_blocks(out.now);
}

// Ends of training steps on this device, ascending: the end of the optimizer's step, else of a profiler's step.
std::vector<std::int64_t> step_ends(const AllocatorSnapshot& snapshot, int device) {
  std::vector<std::int64_t> optimizer, profiler;
  for (const SnapshotAnnotation& mark : snapshot.annotations) {
    if (mark.start || mark.device != device) continue;
    const std::string_view name = snapshot.stacks.text_of(mark.name);
    if (name.starts_with("Optimizer.step")) optimizer.push_back(mark.time_us);
    else if (name.starts_with("ProfilerStep")) profiler.push_back(mark.time_us);
  }
  return profiler.size() > 2 || optimizer.empty() ? profiler : optimizer;
}

// Memory at the first event, worked back from the dump: what the events added is taken off. Also the peak and the last out-of-memory event.
struct Course {
  std::int64_t allocated = 0, active = 0, reserved = 0;            // at the start, then running
  std::int64_t peak = 0;
  std::size_t peak_event = 0, oom_event = 0, ooms = 0;
};

// Change of the three sums by an event.
void apply(const TraceEvent& event, Course& course) {
  switch (event.action) {
    case TraceAction::alloc:
      add(course.allocated, rounded_size(event.size));
      add(course.active, rounded_size(event.size));
      break;
    case TraceAction::free_requested: take(course.allocated, rounded_size(event.size)); break;
    case TraceAction::free_completed: take(course.active, rounded_size(event.size)); break;
    case TraceAction::segment_alloc:
    case TraceAction::segment_map: add(course.reserved, event.size); break;
    case TraceAction::segment_free:
    case TraceAction::segment_unmap: take(course.reserved, event.size); break;
    default: break;
  }
}

class TraceWalk {
 public:
  TraceWalk(const AllocatorSnapshot& snapshot, const AllocatorTrace& trace, DeviceSummary& out, const SummaryOptions& options)
      : snapshot_(snapshot), trace_(trace), out_(out), options_(options), timeline_(options, trace.size()) {}

  void run() {
    find_moments();
    walk_blocks();
    find_leak();
  }

 private:
  void find_moments();
  void find_steps(const RepeatFinder& repeats);
  void walk_blocks();
  void find_leak();
  void change(StackId stack, std::int64_t size, bool more);
  void keep(MemoryState& state);
  void add_early(MemoryState& state);

  // A block that was there before the first event, and the event that freed it.
  struct Early {
    LiveBlock block;
    std::size_t freed = 0;
  };

  const AllocatorSnapshot& snapshot_;
  const AllocatorTrace& trace_;
  DeviceSummary& out_;
  const SummaryOptions& options_;
  Course start_, course_;
  bool whole_ = true;                          // the trace reaches to the dump
  LiveMap live_;
  std::vector<Early> early_;
  std::vector<LiveBlock> always_;              // there before the trace and still at the dump
  std::vector<std::int64_t> by_stack_;         // live bytes of blocks of the trace
  TimelineRecorder timeline_;
  std::optional<RepeatFinder::Anchor> anchor_; // steps are told by it; empty: by marks, if at all
  std::vector<std::int64_t> marks_;            // ends of steps in the trace
  std::optional<StepGrowth> growth_;
  std::vector<std::int64_t> at_oom_;           // by_stack_ then
};

void TraceWalk::find_moments() {
  // First pass: the sum of all changes gives the start; the moments of the peak and of the failure.
  Course sum;
  TraceEvent event;
  std::size_t index = 0;
  std::int64_t highest = INT64_MIN, reserved_highest = 0;
  AllocatorTrace::Cursor cursor = trace_.events();
  std::int64_t last = 0;
  std::size_t impossible = 0, first_impossible = 0;
  RepeatFinder repeats(snapshot_.stacks.stacks());
  while (cursor.next(event)) {
    apply(event, sum);
    // A request that failed may have been of any size: a tensor of a wrong shape.
    if ((event.size < 0 || (event.size >= limits::kDeviceBytes && event.action != TraceAction::oom)) && impossible++ == 0) first_impossible = index;
    if (event.action == TraceAction::alloc) repeats.alloc(event.stack, index);
    else if (event.action == TraceAction::free_requested) repeats.freed();
    ++index;
    if (event.time_us > 0) {
      if (out_.first_us == 0) out_.first_us = event.time_us;
      last = event.time_us;
    }
    if (sum.allocated > highest) {
      highest = sum.allocated;
      course_.peak_event = index;
    }
    reserved_highest = std::max(reserved_highest, sum.reserved);
    if (event.action == TraceAction::oom) {
      course_.oom_event = index;
      ++course_.ooms;
    }
  }
  if (impossible > 0)
    out_.faults.push_back(std::to_string(impossible) + " events of the trace have impossible sizes, the first is number " + std::to_string(first_impossible + 1) + " of " + std::to_string(index));
  out_.last_us = last;
  out_.events = index;
  whole_ = snapshot_.traces_whole && snapshot_.segments_whole;
  if (whole_) {
    start_ = {out_.now.allocated, out_.now.active, out_.now.reserved, 0, 0, 0, 0};
    take(start_.allocated, sum.allocated);
    take(start_.active, sum.active);
    take(start_.reserved, sum.reserved);
    start_.reserved = std::max<std::int64_t>(0, start_.reserved);
  }
  out_.reserved_peak = start_.reserved;
  add(out_.reserved_peak, reserved_highest);
  find_steps(repeats);
}

// Marks where there are enough and they reach to the end, else turns of a loop.
void TraceWalk::find_steps(const RepeatFinder& repeats) {
  const std::vector<std::int64_t> ends = step_ends(snapshot_, out_.device);
  marks_.assign(std::ranges::lower_bound(ends, out_.first_us), ends.end());
  out_.steps_marked = true;
  const bool enough = marks_.size() >= StepGrowth::kWarmUp + StepGrowth::kLeast;
  if (!enough || (marks_.back() - out_.first_us) / 6 < (out_.last_us - out_.first_us) / 10) anchor_ = repeats.anchor(snapshot_.stacks, out_.events);
  std::size_t steps = marks_.size();
  if (anchor_) {
    out_.steps_marked = false;
    steps = anchor_->turns;
  } else if (marks_.empty()) {
    out_.steps_marked = false;
    return;
  }
  // Whether the first steps are in the trace or not, leaving two out costs little; of few turns only one is left out.
  const bool few = steps < StepGrowth::kWarmUp + StepGrowth::kLeast;
  const std::size_t warm_up = steps > kStepsKept ? steps - kStepsKept : few ? 1 : StepGrowth::kWarmUp;
  growth_.emplace(snapshot_.stacks.stacks(), warm_up, few);
}

void TraceWalk::change(StackId stack, std::int64_t size, bool more) {
  more ? add(by_stack_[stack], size) : take(by_stack_[stack], size);
  timeline_.change(stack, more ? size : -size);
}

void TraceWalk::keep(MemoryState& state) {
  state.blocks.reserve(live_.size());
  live_.each([&](const LiveEntry& entry) {
    if (!entry.pending) state.blocks.push_back({entry.address, entry.size, entry.time_us, entry.stack, false});
  });
}

void TraceWalk::add_early(MemoryState& state) {
  for (const Early& early : early_)
    if (early.freed > state.event) state.blocks.push_back(early.block);
  state.blocks.insert(state.blocks.end(), always_.begin(), always_.end());
  state.allocated = 0;
  for (const LiveBlock& block : state.blocks) add(state.allocated, block.size);
  sort_blocks(state);
}

void TraceWalk::walk_blocks() {
  std::size_t next_step = 0;
  if (!anchor_) out_.step_ends = marks_;
  by_stack_.resize(snapshot_.stacks.stacks());
  MemoryState peak;
  OomEvent oom;
  std::unordered_map<std::uint64_t, std::size_t> early_pending;     // address -> number in early_
  Course running = start_;
  TraceEvent event;
  std::size_t index = 0;
  AllocatorTrace::Cursor cursor = trace_.events();
  while (cursor.next(event)) {
    if (anchor_) {
      if (event.action == TraceAction::alloc && event.stack == anchor_->stack) {
        growth_->sample(by_stack_);
        if (event.time_us > 0) out_.step_ends.push_back(event.time_us);
      }
    } else {
      for (; next_step < marks_.size() && event.time_us > marks_[next_step] && event.time_us > 0; ++next_step) growth_->sample(by_stack_);
    }
    ++index;
    apply(event, running);
    switch (event.action) {
      case TraceAction::alloc: {
        LiveEntry* entry = live_.find(event.address);
        if (!entry) entry = &live_.insert(event.address);
        else if (!entry->pending) change(entry->stack, entry->size, false);   // its free was not recorded
        entry->pending = false;
        entry->size = rounded_size(event.size);
        entry->stack = event.stack < by_stack_.size() ? event.stack : 0;
        entry->time_us = event.time_us;
        change(entry->stack, entry->size, true);
        break;
      }
      case TraceAction::free_requested:
        if (LiveEntry* const entry = live_.find(event.address)) {
          if (!entry->pending) change(entry->stack, entry->size, false);
          entry->pending = true;
        } else {
          early_pending[event.address] = early_.size();
          early_.push_back({{event.address, rounded_size(event.size), 0, 0, false}, index});
        }
        break;
      case TraceAction::free_completed:
        if (LiveEntry* const entry = live_.find(event.address)) {
          if (!entry->pending) change(entry->stack, entry->size, false);
          live_.erase(entry);
        } else if (const auto found = early_pending.find(event.address); found != early_pending.end()) {
          // The end of a free carries the stack of the allocation.
          if (early_[found->second].block.stack == 0) early_[found->second].block.stack = event.stack;
          early_pending.erase(found);
        } else {
          early_.push_back({{event.address, rounded_size(event.size), 0, event.stack, false}, index});
        }
        break;
      default: break;
    }
    if (index == course_.peak_event) {
      peak.event = index;
      peak.time_us = event.time_us;
      peak.active = running.active;
      peak.reserved = running.reserved;
      keep(peak);
    }
    if (index == course_.oom_event) {
      oom.requested = std::max<std::int64_t>(0, event.size);
      oom.device_free = static_cast<std::int64_t>(event.address);
      oom.count = course_.ooms;
      oom.stack = event.stack;
      oom.stream = event.stream;
      oom.state.event = index;
      oom.state.time_us = event.time_us;
      oom.state.active = running.active;
      oom.state.reserved = running.reserved;
      keep(oom.state);
      if (growth_) at_oom_ = by_stack_;
    }
    timeline_.after_event(event.time_us, running.allocated, running.reserved, by_stack_);
  }
  if (!anchor_)
    for (; next_step < marks_.size(); ++next_step) growth_->sample(by_stack_);
  // What lives at the dump but was not allocated in the trace lived all along. The others' true sizes and times are known now.
  for (LiveBlock& block : out_.now.blocks) {
    const LiveEntry* const entry = live_.find(block.address);
    if (entry && !entry->pending) block.time_us = entry->time_us;
    else if (whole_) always_.push_back(block);
  }
  std::unordered_map<std::uint64_t, const LiveBlock*> at_dump;
  for (const LiveBlock& block : out_.now.blocks) at_dump.emplace(block.address, &block);
  for (MemoryState* const state : {&peak, &oom.state}) {
    if (state->event == 0) continue;
    // A block that still lives at the dump has its true size there (the allocator does not split off a small rest).
    for (LiveBlock& block : state->blocks)
      if (const auto found = at_dump.find(block.address); found != at_dump.end() && found->second->time_us == block.time_us) {
        block.size = found->second->size;
        block.private_pool = found->second->private_pool;
      }
    add_early(*state);
  }
  for (const Early& early : early_) timeline_.older(early.block.stack, early.block.size, early.freed);
  for (const LiveBlock& block : always_) timeline_.older(block.stack, block.size, SIZE_MAX);
  timeline_.finish(out_);
  out_.trace_cut = !early_.empty() || !always_.empty();
  if (course_.peak_event) out_.peak = std::move(peak);
  if (course_.oom_event) out_.oom = std::move(oom);
}

void TraceWalk::find_leak() {
  if (!growth_) return;
  std::optional<Leak> leak = growth_->leak(out_.oom ? at_oom_ : by_stack_);
  if (!leak) return;
  if (anchor_) leak->anchor = anchor_->stack;
  if (leak->bytes_per_step > 0 && !out_.oom) {
    const std::int64_t room = options_.device_bytes > 0 ? std::max<std::int64_t>(0, options_.device_bytes - out_.now.allocated) : out_.fragmentation.unallocated;
    leak->steps_left = static_cast<double>(room) / static_cast<double>(leak->bytes_per_step);
  }
  out_.leak = std::move(leak);
}

}  // namespace

std::int64_t last_step_before(const DeviceSummary& summary, const MemoryState& state) {
  const auto after = state.time_us > 0 ? std::ranges::lower_bound(summary.step_ends, state.time_us) : summary.step_ends.end();
  return after == summary.step_ends.begin() ? 0 : *(after - 1);
}

std::vector<DeviceSummary> summarize(const AllocatorSnapshot& snapshot, const SummaryOptions& options) {
  std::vector<DeviceSummary> all;
  for (const int device : snapshot.devices()) {
    DeviceSummary summary;
    summary.device = device;
    read_segments(snapshot, summary);
    if (const AllocatorTrace* const trace = snapshot.trace_of(device); trace && !trace->empty()) TraceWalk(snapshot, *trace, summary, options).run();
    if (summary.oom)
      summary.fragmentation.blocked_request =
          summary.oom->requested > summary.fragmentation.largest_free && summary.oom->requested <= summary.fragmentation.unallocated;
    all.push_back(std::move(summary));
  }
  return all;
}

}  // namespace triage::parsers
