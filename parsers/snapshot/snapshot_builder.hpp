// Builder of the pickle machine for allocator snapshots: tells segments, blocks, events, frames and marks by their keys, and puts each where it
// belongs as soon as it is whole. Used by snapshot_reader.cpp only.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/snapshot/allocator.hpp"
#include "parsers/snapshot/packed_memo.hpp"

namespace triage::parsers {

class SnapshotBuilder {
 public:
  // What a value is; in the upper 4 bits of Value::code. The lower 28 bits number it within its kind.
  enum class Kind : std::uint32_t {
    wide,          // in the memo alone: a number of wide_
    scalar,        // ref: ScalarType; bits: the value
    text,          // ref: TextId
    frame,         // ref: FrameId
    pair,          // a tuple of two integers. ref: number of pairs_
    history,       // of a block, PyTorch 2.0. ref: number of histories_
    event,         // stands in its trace already
    segment,       // ref: number of the segment
    block,         // ref: number of the block
    extras,        // a dict of scalars. ref: number of extras_
    other,         // nothing that the analysis needs
    open_dict,     // no entries yet
    list,          // no items yet, or of no known kind (ref 1)
    stack,         // a list of frames. ref: StackId
    blocks,        // a list of blocks. ref: number of block_lists_
    trace,         // a list of events, or (ref kDevices) the list of these lists
  };
  enum ScalarType : std::uint32_t { kNone, kBool, kInteger, kReal };
  struct Value {             // trivial: it is moved by the million
    std::uint32_t code;
    std::int64_t bits;       // scalars: the value; lists: memo entry + 1, or 0
    Kind kind() const { return static_cast<Kind>(code >> 28); }
    std::uint32_t ref() const { return code & kRefs; }
  };

  explicit SnapshotBuilder(std::size_t memory_bytes);   // bounds what it keeps, but for the events and the texts and stacks

  Value none() const { return make(Kind::scalar, kNone); }
  Value boolean(bool value) const { return make(Kind::scalar, kBool, value ? 1 : 0); }
  Value integer(std::int64_t value) const { return make(Kind::scalar, kInteger, value); }
  Value real(double value) const;
  Value text(std::string_view text) { return make(Kind::text, snapshot_.stacks.text(text)); }
  Value list() const { return make(Kind::list, 0); }
  Value dict() const { return make(Kind::open_dict, 0); }
  Value tuple(const Value* first, std::size_t n);
  bool is_list(Value value) const { return value.kind() >= Kind::list || value.kind() == Kind::history; }
  bool is_dict(Value value) const { return value.kind() == Kind::open_dict; }
  bool append(Value& target, const Value* first, std::size_t n);
  bool set_items(Value& target, const Value* first, std::size_t n, Value* parent);
  static bool same_run(const Value& a, const Value& b) { return a.kind() == Kind::event && b.kind() == Kind::event; }
  bool put(std::uint64_t index, Value& value);
  bool get(std::uint64_t index, Value& value) {
    const std::uint32_t code = memo_.get(index);
    if (__builtin_expect(code < 1U << 28, 0)) return get_wide(index, code, value);
    value.code = code;
    value.bits = static_cast<std::int64_t>(index) + 1;
    return true;
  }

  // The end of the reading. root: what the pickle gave.
  bool found_snapshot() const { return saw_root_ || !snapshot_.segments.empty() || !traces_.empty(); }
  AllocatorSnapshot take();
  std::size_t memo_bytes() const { return memo_.memory_bytes(); }

  std::string failure;
  bool over_limit = false;

 private:
  static constexpr std::uint32_t kRefs = (1U << 28) - 1;
  static constexpr std::uint32_t kDevices = kRefs;
  struct Fields;

  static Value make(Kind kind, std::uint32_t ref, std::int64_t bits = 0) {
    return ref > kRefs ? make(Kind::other, 0) : Value{static_cast<std::uint32_t>(kind) << 28 | ref, bits};
  }
  // Another record, where the bounds allow it; else over_limit.
  template <class Record>
  void keep(std::vector<Record>& list, const Record& record) {
    kept_ += sizeof(Record);
    if (within_bounds()) list.push_back(record);
  }
  bool within_bounds();
  static std::int64_t number(const Value& value);
  bool get_wide(std::uint64_t index, std::uint32_t code, Value& value);
  // Gives `target` its kind, also in the memo.
  void become(Value& target, Kind kind, std::uint32_t ref);
  void add_event(const Fields& fields, Value& target, Value* parent);
  void append_event(Value& list, const TraceEvent& event);
  void add_segment(const Fields& fields, Value& target);
  void add_block(const Fields& fields, Value& target);
  void add_frame(const Fields& fields, Value& target);
  void add_settings(const Value* first, std::size_t n);
  void add_extras(const Value* first, std::size_t n, Value& target);
  StackId stack_of(Value frames) const { return frames.kind() == Kind::stack ? frames.ref() : 0; }
  std::string scalar_text(Value value) const;

  struct History { StackId stack = 0; std::int64_t size = 0; };
  struct BlockList { std::uint32_t first = 0, count = 0; };

  AllocatorSnapshot snapshot_;
  std::vector<DeviceTrace> traces_;
  PackedMemo memo_;
  std::vector<Value> wide_;
  std::vector<PoolId> pairs_;
  std::vector<History> histories_;
  std::vector<BlockList> block_lists_;
  std::vector<std::vector<std::pair<Value, Value>>> extras_;
  std::size_t extra_values_ = 0, memory_bytes_, kept_ = 0;   // kept_: bytes of records
  std::vector<FrameId> frames_;            // scratch
  TraceEvent loose_event_;                 // an event whose list is known only when it is appended
  bool loose_ = false, saw_root_ = false;
  int device_lists_ = 0;
};

}  // namespace triage::parsers
