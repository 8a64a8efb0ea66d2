#include "parsers/snapshot/snapshot_builder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

// The words of the format, in the order of their text numbers (1, 2, ...). Source: torch/csrc/cuda/memory_snapshot.cpp, torch/csrc/cuda/
// Module.cpp, torch/cuda/_memory_viz.py (history: PyTorch 2.0), torch/cuda/memory.py (fx_*).
enum Word : TextId {
  kAction = 1, kAddr, kSize, kStream, kTime, kContext, kMetadata, kFrames, kDeviceFree, kDevice, kAddress, kTotal, kAllocated, kActive, kRequested,
  kSegmentType, kPool, kExpandable, kBlocks, kState, kName, kFilename, kLine, kStage, kSegments, kTraces, kSettings, kAnnotations, kHistory, kRealSize,
  kConfiguration, kMaxSplit, kFxName, kFxTrace, kEventPool, kKeys,
  kFirstAction = kKeys, kLastAction = kFirstAction + 8, kLarge, kSmall, kStateAllocated, kStateAwaiting, kStatePending, kStateInactive, kStart, kEnd,
  kRoundup, kGarbage,
};
constexpr std::array<std::string_view, 54> kWords = {
    "action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames", "device_free", "device", "address", "total_size",
    "allocated_size", "active_size", "requested_size", "segment_type", "segment_pool_id", "is_expandable", "blocks", "state", "name", "filename",
    "line", "stage", "segments", "device_traces", "allocator_settings", "external_annotations", "history", "real_size", "PYTORCH_CUDA_ALLOC_CONF",
    "max_split_size", "fx_node_name", "fx_original_trace", "pool_id",
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom",
    "large", "small", "active_allocated", "active_awaiting_free", "active_pending_free", "inactive", "START", "END",
    "roundup_power2_divisions", "garbage_collection_threshold"};
static_assert(kKeys - 1 + 9 + 8 + 2 == kWords.size() && kKeys <= 64);

constexpr std::uint64_t bit(Word word) { return std::uint64_t{1} << word; }

}  // namespace

struct SnapshotBuilder::Fields {
  std::uint64_t mask = 0;
  // Places on the machine's stack; set where the mask says so: clearing it for each of millions of dicts would cost more than filling it.
  std::array<const Value*, kKeys> place;
  const Value& value(Word word) const { return *place[word]; }
  bool has(Word word) const { return (mask & bit(word)) != 0; }
  std::int64_t number(Word word) const { return has(word) ? SnapshotBuilder::number(value(word)) : 0; }
  // A number of bytes; larger ones than any device has are cut.
  std::int64_t size(Word word) const { return std::clamp<std::int64_t>(number(word), -1, limits::kDeviceBytes); }
  StackId stack() const { return has(kFrames) && value(kFrames).kind() == Kind::stack ? value(kFrames).ref() : 0; }
  TextId text(Word word) const { return has(word) && value(word).kind() == Kind::text ? value(word).ref() : 0; }
};

SnapshotBuilder::SnapshotBuilder(std::size_t memory_bytes) : memory_bytes_(memory_bytes) {
  for (const std::string_view word : kWords) (void)snapshot_.stacks.text(word);
}

bool SnapshotBuilder::within_bounds() {
  if (memo_.memory_bytes() + kept_ <= memory_bytes_) return true;
  over_limit = true;
  failure = "memo, segments and blocks need more memory than allowed";
  return false;
}

SnapshotBuilder::Value SnapshotBuilder::real(double value) const { return make(Kind::scalar, kReal, std::bit_cast<std::int64_t>(value)); }

std::int64_t SnapshotBuilder::number(const Value& value) {
  if (value.kind() != Kind::scalar) return 0;
  if (value.ref() != kReal) return value.bits;
  const double real = std::bit_cast<double>(value.bits);
  // Addresses of 64 bits come as a real (an integer of 9 bytes).
  if (real >= 0 && real < 18446744073709551616.0) return static_cast<std::int64_t>(static_cast<std::uint64_t>(real));
  return 0;
}

SnapshotBuilder::Value SnapshotBuilder::tuple(const Value* first, std::size_t n) {
  if (n != 2 || first[0].kind() != Kind::scalar || first[1].kind() != Kind::scalar) return make(Kind::other, 0);
  const PoolId pair{number(first[0]), number(first[1])};
  for (std::size_t back = 1; back <= std::min<std::size_t>(pairs_.size(), 8); ++back)
    if (pairs_[pairs_.size() - back] == pair) return make(Kind::pair, static_cast<std::uint32_t>(pairs_.size() - back));
  keep(pairs_, pair);
  return over_limit ? make(Kind::other, 0) : make(Kind::pair, static_cast<std::uint32_t>(pairs_.size() - 1));
}

bool SnapshotBuilder::put(std::uint64_t index, Value& value) {
  if (value.kind() == Kind::scalar) {   // no writer does that
    if (wide_.size() >= limits::kSnapshotExtras) {
      over_limit = true;
      failure = "too many numbers in the memo";
      return false;
    }
    wide_.push_back(value);
    memo_.put(index, static_cast<std::uint32_t>(wide_.size()));
    return within_bounds();
  }
  value.bits = static_cast<std::int64_t>(index) + 1;
  memo_.put(index, value.code);
  return within_bounds();
}

bool SnapshotBuilder::get_wide(std::uint64_t index, std::uint32_t code, Value& value) {
  if (code == PackedMemo::kNothing) {
    failure = "memo entry " + std::to_string(index) + " was never put";
    return false;
  }
  value = wide_[code - 1];
  return true;
}

void SnapshotBuilder::become(Value& target, Kind kind, std::uint32_t ref) {
  target.code = make(kind, ref).code;
  if (target.bits > 0) memo_.put(static_cast<std::uint64_t>(target.bits - 1), target.code);
}

bool SnapshotBuilder::append(Value& target, const Value* first, std::size_t n) {
  if (!is_list(target)) {
    if (target.kind() == Kind::other) return true;
    failure = "items for a value that is no list";
    return false;
  }
  if (n == 0) return true;
  switch (first[0].kind()) {
    case Kind::frame: {
      if (target.kind() != Kind::list && target.kind() != Kind::stack) return true;
      const std::span<const FrameId> before = snapshot_.stacks.frames_of(stack_of(target));
      // Python writes long lists in portions of 1000; other portions would let a short file make long lists.
      if (before.size() % 1000 != 0) return true;
      frames_.assign(before.begin(), before.end());
      for (std::size_t i = 0; i < n && frames_.size() < limits::kStackFrames; ++i)
        if (first[i].kind() == Kind::frame) frames_.push_back(first[i].ref());
      become(target, Kind::stack, snapshot_.stacks.stack(frames_));
      return true;
    }
    case Kind::event:
      if (loose_ && n == 1) append_event(target, loose_event_);
      loose_ = false;
      return true;
    case Kind::block: {
      if (target.kind() == Kind::list) {
        keep(block_lists_, {first[0].ref(), 0});
        if (over_limit) return false;
        become(target, Kind::blocks, static_cast<std::uint32_t>(block_lists_.size() - 1));
      }
      if (target.kind() != Kind::blocks) return true;
      BlockList& list = block_lists_[target.ref()];
      for (std::size_t i = 0; i < n; ++i)
        if (first[i].kind() == Kind::block && first[i].ref() == list.first + list.count) ++list.count;
      return true;
    }
    case Kind::history:
      if (target.kind() == Kind::list) become(target, Kind::history, first[0].ref());
      return true;
    case Kind::trace:
    case Kind::list: {
      // The list of one list a device, empty ones too.
      if (target.kind() == Kind::list) become(target, Kind::trace, kDevices);
      if (target.kind() != Kind::trace || target.ref() != kDevices) return true;
      for (std::size_t i = 0; i < n; ++i) {
        if (first[i].kind() == Kind::trace && first[i].ref() < traces_.size()) traces_[first[i].ref()].device = device_lists_;
        ++device_lists_;
      }
      return true;
    }
    case Kind::scalar:   // a tuple that went through JSON
      if (n == 2 && target.code == make(Kind::list, 0).code)
        if (const Value pair = tuple(first, n); pair.kind() == Kind::pair) {
          become(target, Kind::pair, pair.ref());
          return true;
        }
      [[fallthrough]];
    default:
      if (target.kind() == Kind::list) become(target, Kind::list, 1);
      return !over_limit;
  }
}

bool SnapshotBuilder::set_items(Value& target, const Value* first, std::size_t n, Value* parent) {
  if (target.kind() != Kind::open_dict) {
    if (target.kind() == Kind::scalar || target.kind() == Kind::text || is_list(target)) {
      failure = "entries for a value that is no dict";
      return false;
    }
    return true;   // more entries of a dict that is known already: none of ours has more than 1000
  }
  Fields fields;
  for (std::size_t i = 0; i + 1 < n; i += 2) {
    // A text of small number is a word of the format: one comparison for kind and number.
    const std::uint32_t word = first[i].code - make(Kind::text, 0).code;
    if (word >= kKeys) continue;
    fields.mask |= std::uint64_t{1} << word;
    fields.place[word] = &first[i + 1];
  }
  if (fields.has(kAction)) {
    add_event(fields, target, parent);
  } else if (fields.has(kFilename) && fields.has(kLine)) {
    add_frame(fields, target);
  } else if (fields.has(kState) && fields.has(kSize)) {
    add_block(fields, target);
  } else if (fields.has(kTotal) && fields.has(kAddress)) {
    add_segment(fields, target);
  } else if (fields.has(kStage) && fields.has(kName)) {
    SnapshotAnnotation mark;
    mark.start = fields.text(kStage) != kEnd;
    mark.device = static_cast<int>(fields.number(kDevice));
    mark.name = fields.text(kName);
    mark.time_us = fields.number(kTime);
    keep(snapshot_.annotations, mark);
    become(target, Kind::other, 0);
  } else if (fields.has(kRealSize)) {
    keep(histories_, {fields.stack(), fields.size(kRealSize)});
    if (!over_limit) become(target, Kind::history, static_cast<std::uint32_t>(histories_.size() - 1));
  } else if (fields.has(kSegments) || fields.has(kTraces)) {
    saw_root_ = true;
    snapshot_.has_traces = snapshot_.has_traces || fields.has(kTraces);
    become(target, Kind::other, 0);
  } else if (fields.has(kConfiguration) || fields.has(kMaxSplit)) {
    add_settings(first, n);
    become(target, Kind::other, 0);
  } else {
    add_extras(first, n, target);
  }
  return !over_limit;
}

void SnapshotBuilder::add_event(const Fields& fields, Value& target, Value* parent) {
  TraceEvent event;
  const TextId action = fields.text(kAction);
  event.action = action >= kFirstAction && action <= kLastAction ? static_cast<TraceAction>(action - kFirstAction) : TraceAction::other;
  event.stack = fields.stack();
  event.address = static_cast<std::uint64_t>(fields.number(fields.has(kAddr) ? kAddr : kDeviceFree));
  event.size = fields.size(kSize);
  event.time_us = fields.number(kTime);
  event.stream = static_cast<std::uint64_t>(fields.number(kStream));
  if (fields.has(kEventPool) && fields.value(kEventPool).kind() == Kind::pair) {
    event.pool = pairs_[fields.value(kEventPool).ref()];
    snapshot_.events_name_pools = true;
  }
  event.compile_context = fields.text(kContext);
  event.user_metadata = fields.text(kMetadata);
  become(target, Kind::event, 0);
  if (parent && (parent->kind() == Kind::list || parent->kind() == Kind::trace)) {
    append_event(*parent, event);
  } else {
    loose_event_ = event;
    loose_ = true;
  }
}

void SnapshotBuilder::append_event(Value& list, const TraceEvent& event) {
  if (list.kind() == Kind::list) {
    traces_.emplace_back();
    traces_.back().device = -1;
    become(list, Kind::trace, static_cast<std::uint32_t>(traces_.size() - 1));
  }
  if (list.kind() == Kind::trace && list.ref() < traces_.size()) traces_[list.ref()].events.append(event);
}

void SnapshotBuilder::add_frame(const Fields& fields, Value& target) {
  StackFrame frame;
  frame.file = fields.text(kFilename);
  frame.function = fields.text(kName);
  frame.line = static_cast<std::int32_t>(std::clamp<std::int64_t>(fields.number(kLine), -1, std::numeric_limits<std::int32_t>::max()));
  frame.module = fields.has(kFxTrace) ? fields.text(kFxTrace) : fields.text(kFxName);
  become(target, Kind::frame, snapshot_.stacks.frame(frame));
}

void SnapshotBuilder::add_block(const Fields& fields, Value& target) {
  SnapshotBlock block;
  block.address = static_cast<std::uint64_t>(fields.number(kAddress));
  block.size = fields.size(kSize);
  const TextId state = fields.text(kState);
  block.state = state == kStateAllocated ? BlockState::allocated : state == kStateInactive ? BlockState::inactive : BlockState::pending_free;
  block.requested_size = fields.has(kRequested) ? fields.size(kRequested) : block.size;
  block.stack = fields.stack();
  if (!fields.has(kFrames) && fields.has(kHistory) && fields.value(kHistory).kind() == Kind::history) {
    const History& history = histories_[fields.value(kHistory).ref()];
    block.stack = history.stack;
    if (!fields.has(kRequested)) block.requested_size = history.size;
  }
  keep(snapshot_.blocks, block);
  if (!over_limit) become(target, Kind::block, static_cast<std::uint32_t>(snapshot_.blocks.size() - 1));
}

void SnapshotBuilder::add_segment(const Fields& fields, Value& target) {
  SnapshotSegment segment;
  segment.device = static_cast<int>(std::clamp<std::int64_t>(fields.number(kDevice), 0, limits::kRanks));
  segment.address = static_cast<std::uint64_t>(fields.number(kAddress));
  segment.total_size = fields.size(kTotal);
  segment.allocated_size = fields.size(kAllocated);
  segment.active_size = fields.size(kActive);
  segment.requested_size = fields.size(kRequested);
  segment.stream = static_cast<std::uint64_t>(fields.number(kStream));
  segment.large = fields.text(kSegmentType) == kLarge;
  segment.expandable = fields.number(kExpandable) != 0;
  segment.stack = fields.stack();
  if (fields.has(kPool) && fields.value(kPool).kind() == Kind::pair) segment.pool = pairs_[fields.value(kPool).ref()];
  if (fields.has(kBlocks) && fields.value(kBlocks).kind() == Kind::blocks) {
    const BlockList list = block_lists_[fields.value(kBlocks).ref()];
    segment.first_block = list.first;
    segment.blocks = list.count;
    std::uint64_t address = segment.address;   // PyTorch 2.0 gives blocks no address: they follow one another
    for (std::uint32_t i = 0; i < list.count; ++i) {
      SnapshotBlock& block = snapshot_.blocks[list.first + i];
      if (block.address == 0) block.address = address;
      address = block.address + static_cast<std::uint64_t>(block.size);
    }
  }
  keep(snapshot_.segments, segment);
  if (!over_limit) become(target, Kind::segment, static_cast<std::uint32_t>(snapshot_.segments.size() - 1));
}

std::string SnapshotBuilder::scalar_text(Value value) const {
  if (value.kind() == Kind::text) return std::string(snapshot_.stacks.text_of(value.ref()));
  if (value.kind() != Kind::scalar) return {};
  switch (value.ref()) {
    case kBool: return value.bits ? "True" : "False";
    case kInteger: return std::to_string(value.bits);
    case kReal: {
      char room[32];
      (void)std::snprintf(room, sizeof room, "%.9g", std::bit_cast<double>(value.bits));
      return room;
    }
    default: return "None";
  }
}

void SnapshotBuilder::add_settings(const Value* first, std::size_t n) {
  AllocatorSettings& settings = snapshot_.settings;
  settings = {};
  settings.known = true;
  for (std::size_t i = 0; i + 1 < n; i += 2) {
    const Value key = first[i], value = first[i + 1];
    if (key.kind() != Kind::text) continue;
    const std::string_view name = snapshot_.stacks.text_of(key.ref());
    if (value.kind() == Kind::scalar || value.kind() == Kind::text) settings.all.emplace_back(std::string(name), scalar_text(value));
    if (key.ref() == kConfiguration) settings.configuration = scalar_text(value);
    else if (key.ref() == kMaxSplit && number(value) > 0) settings.max_split_bytes = number(value);
    else if (key.ref() == kGarbage && value.kind() == Kind::scalar)
      settings.garbage_collection_threshold = value.ref() == kReal ? std::bit_cast<double>(value.bits) : static_cast<double>(value.bits);
    else if (name == "expandable_segments") settings.expandable_segments = number(value) != 0;
    else if (key.ref() == kRoundup && value.kind() == Kind::extras)
      for (const auto& [size, divisions] : extras_[value.ref()])
        if (const auto mib = read_integer(scalar_text(size))) settings.roundup_power2_divisions.emplace_back(*mib, number(divisions));
  }
}

void SnapshotBuilder::add_extras(const Value* first, std::size_t n, Value& target) {
  if (extra_values_ + n > limits::kSnapshotExtras) return become(target, Kind::other, 0);
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i + 1 < n; i += 2) entries.emplace_back(first[i], first[i + 1]);
  extra_values_ += n;
  extras_.push_back(std::move(entries));
  become(target, Kind::extras, static_cast<std::uint32_t>(extras_.size() - 1));
}

AllocatorSnapshot SnapshotBuilder::take() {
  // A cut file may lack the list of lists: then the traces stand in the order of their devices.
  int next = 0;
  for (DeviceTrace& trace : traces_) {
    if (trace.device < 0) trace.device = next;
    next = trace.device + 1;
    trace.events.finish();
  }
  snapshot_.traces = std::move(traces_);
  std::ranges::stable_sort(snapshot_.traces, {}, &DeviceTrace::device);
  snapshot_.has_traces = snapshot_.has_traces || !snapshot_.traces.empty();
  std::ranges::stable_sort(snapshot_.annotations, {}, &SnapshotAnnotation::time_us);
  snapshot_.blocks.shrink_to_fit();
  return std::move(snapshot_);
}

std::vector<int> AllocatorSnapshot::devices() const {
  std::vector<int> found;
  for (const SnapshotSegment& segment : segments) found.push_back(segment.device);
  for (const DeviceTrace& trace : traces) found.push_back(trace.device);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace triage::parsers
