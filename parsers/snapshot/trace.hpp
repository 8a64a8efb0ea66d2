// The events of PyTorch's caching allocator on one device, in time order, held in a compact coded form: about 8 bytes an event instead of
// the 80 of its pickle, so that millions of them fit. Written once, in order, and walked from start to end as often as wanted.
// Source of the events: c10/cuda/CUDACachingAllocator.cpp (record_trace), torch/csrc/cuda/Module.cpp and memory_snapshot.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "parsers/snapshot/stack_table.hpp"

namespace triage::parsers {

enum class TraceAction : std::uint8_t {
  alloc,            // a block was given out
  free_requested,   // its tensor died; the block may still be in use on other streams
  free_completed,   // the block is free again
  segment_alloc,    // cudaMalloc
  segment_free,     // cudaFree
  segment_map,      // expandable segments: memory mapped into
  segment_unmap,    // and taken out of the address range
  snapshot,         // a dump was made
  oom,              // an allocation failed for good: OutOfMemoryError was thrown
  other,            // an action of a later PyTorch
};
std::string_view trace_action_name(TraceAction action);

// Which pool of the allocator: (0, 0) is the default, others belong to CUDA graphs or to torch.cuda.MemPool.
struct PoolId {
  std::int64_t first = 0, second = 0;
  bool is_default() const { return first == 0 && second == 0; }
  friend auto operator<=>(const PoolId&, const PoolId&) = default;
};

struct TraceEvent {
  TraceAction action = TraceAction::other;
  StackId stack = 0;               // where it was asked for; free_completed carries the stack of the allocation or none
  std::uint64_t address = 0;       // oom: bytes free on the device, as cudaMemGetInfo said then
  std::int64_t size = 0;           // bytes. alloc and free: as requested, before rounding (PyTorch 2.0: the block's size); oom: the request
  std::int64_t time_us = 0;        // UTC, microseconds; 0 where the snapshot has no times (PyTorch 2.0)
  std::uint64_t stream = 0;        // cudaStream_t as a number; 0: the default stream
  PoolId pool;                     // (0, 0) where not recorded (before PyTorch 2.12)
  TextId compile_context = 0;      // "N/A", or the frame that torch.compile worked on
  TextId user_metadata = 0;        // torch.cuda.memory._set_memory_metadata

  bool is_segment() const { return action >= TraceAction::segment_alloc && action <= TraceAction::segment_unmap; }
};

class AllocatorTrace {
 public:
  AllocatorTrace();
  ~AllocatorTrace();
  AllocatorTrace(AllocatorTrace&&) noexcept;
  AllocatorTrace& operator=(AllocatorTrace&&) noexcept;

  void append(const TraceEvent& event);
  void finish();                   // no more events: gives back what coding needed
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  std::size_t memory_bytes() const;

  // Walks the events in order. The trace must outlive it and must not grow meanwhile.
  class Cursor {
   public:
    explicit Cursor(const AllocatorTrace& trace);
    ~Cursor();
    Cursor(Cursor&&) noexcept;
    bool next(TraceEvent& event);  // false: at the end
   private:
    const AllocatorTrace* trace_;
    std::unique_ptr<struct TraceCodec> codec_;
    std::size_t chunk_ = 0, at_ = 0, left_ = 0;
  };
  Cursor events() const { return Cursor(*this); }

 private:
  // What seldom changes from event to event, once each.
  struct Setting {
    std::uint64_t stream = 0;
    PoolId pool;
    TextId compile_context = 0, user_metadata = 0;
    friend bool operator==(const Setting&, const Setting&) = default;
  };
  std::uint32_t setting_of(const TraceEvent& event);

  static constexpr std::size_t kChunkBytes = 256 * 1024;
  static constexpr std::size_t kEventBytes = 64;   // the longest code of an event
  std::vector<std::unique_ptr<std::uint8_t[]>> chunks_;
  std::vector<std::uint32_t> chunk_sizes_;
  std::vector<Setting> settings_;
  std::vector<std::uint32_t> setting_slots_;       // hash of a setting -> number + 1
  std::unique_ptr<TraceCodec> codec_;
  std::size_t count_ = 0;
};

}  // namespace triage::parsers
