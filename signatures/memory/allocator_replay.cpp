#include "signatures/memory/allocator_replay.hpp"

#include <algorithm>

#include "signatures/memory/allocator_model.hpp"

namespace triage::signatures {
namespace {

using parsers::Bytes;
using Kind = AllocatorRequest::Kind;
using State = AllocatorBlock::State;

class Replay {
 public:
  Replay(const ReplayTrace& trace, const AllocConf& settings, const AllocatorDevice& device)
      : trace_(trace), settings_(settings), follow_(settings == recorded_settings(trace)), model_(settings, device), blocks_(trace.blocks, nullptr) {
    result_.settings = settings;
    model_.set_traits(trace.pool_traits);
  }

  ReplayResult run() {
    for (const StartSegment& segment : trace_.start) place(segment);
    note_peak();
    for (std::size_t i = 0; i < trace_.requests.size() && !result_.stopped; ++i) {
      step(i);
      ++result_.requests;
    }
    return finish();
  }

 private:
  // What stood there at the start. Under the same kind of segments: exactly as it was, cached parts too. Else the blocks in use
  // are asked for anew, as the run would have done from its start.
  void place(const StartSegment& segment) {
    if (!segment.expandable && !settings_.expandable_segments && model_.add_segment(segment, blocks_)) return;
    const bool whole = segment.expandable && settings_.expandable_segments;
    std::vector<AllocatorBlock*> cached;
    for (const StartBlock& start : segment.blocks) {
      if ((!start.in_use && !whole) || start.bytes <= 0 || start.bytes > allocator::kMostBytes) continue;
      const std::int64_t bytes = start.in_use && start.requested > 0 ? start.requested : start.bytes;
      AllocatorBlock* block = model_.malloc(std::min(bytes, allocator::kMostBytes), segment.stream, segment.pool);
      if (!block) continue;
      if (!start.in_use) cached.push_back(block);
      else own(start.block, block);
    }
    for (AllocatorBlock* block : cached) model_.free(block);
  }

  void step(std::size_t index) {
    const AllocatorRequest& request = trace_.requests[index];
    if (request.kind == Kind::empty_cache) return request.pool == 0 ? model_.empty_cache() : model_.empty_pool(request.pool);
    if (request.kind == Kind::pool_done) return model_.pool_done(request.pool);
    if (request.kind == Kind::alloc || request.kind == Kind::failed_alloc) return allocate(index, request);
    if (request.block >= blocks_.size() || !blocks_[request.block]) return;
    AllocatorBlock* block = blocks_[request.block];
    // A release of the cache in between has completed what was pending: then the block may have another owner by now.
    const bool own = block->owner == request.block;
    if (request.kind == Kind::free_requested) {
      if (own && block->state == State::allocated) model_.free_requested(block);
      return;
    }
    blocks_[request.block] = nullptr;
    if (own && block->state == State::allocated) model_.free(block);
    else if (own && block->state == State::pending) model_.free_completed(block);
  }

  void own(std::uint32_t name, AllocatorBlock* block) {
    if (name >= blocks_.size()) return;
    block->owner = name;
    blocks_[name] = block;
  }

  void allocate(std::size_t index, const AllocatorRequest& request) {
    if (!allocator::plausible(request.bytes)) return;
    while (next_address_ < trace_.addresses.size() && trace_.addresses[next_address_].request < index) ++next_address_;
    // Recorded addresses serve to follow the recording; from there on, a mixture of true and modelled ones is worse than a model.
    const bool known = follow_ && next_address_ < trace_.addresses.size() && trace_.addresses[next_address_].request == index;
    AllocatorBlock* block = known && request.restored
                                ? model_.restore(request.bytes, request.stream, request.pool, trace_.addresses[next_address_].address)
                                : nullptr;
    if (!block)
      block = known ? model_.malloc(request.bytes, request.stream, request.pool, trace_.addresses[next_address_].address,
                              trace_.addresses[next_address_].bytes)
              : model_.malloc(request.bytes, request.stream, request.pool);
    note_peak();
    if (!block) {
      result_.would_oom = true;
      result_.stopped = request.kind == Kind::alloc;
      if (!result_.first_oom)
        result_.first_oom = ReplayOutOfMemory{request.event, request.stack, Bytes(request.bytes),
                                              Bytes(model_.stats().reserved.now), Bytes(model_.stats().allocated.now)};
      return;
    }
    // The program did not get it and went on another way: what it would have done with it is not known.
    if (request.kind == Kind::failed_alloc) {
      if (index + 1 < trace_.requests.size()) model_.free(block);
      return;
    }
    own(request.block, block);
  }

  void note_peak() {
    const AllocatorStats& stats = model_.stats();
    if (stats.reserved.peak <= peak_) return;
    peak_ = stats.reserved.peak;
    result_.unallocated_at_peak = Bytes(stats.reserved.now - stats.allocated.now);
  }

  ReplayResult finish() {
    const AllocatorStats& stats = model_.stats();
    result_.ooms = stats.ooms;
    result_.retries = stats.retries;
    result_.reserved_peak = Bytes(stats.reserved.peak);
    result_.allocated_peak = Bytes(stats.allocated.peak);
    result_.active_peak = Bytes(stats.active.peak);
    result_.inactive_split_peak = Bytes(stats.inactive_split.peak);
    result_.reserved_end = Bytes(stats.reserved.now);
    result_.allocated_end = Bytes(stats.allocated.now);
    result_.segments_allocated = stats.segments_allocated;
    result_.segments_freed = stats.segments_freed;
    result_.segments_peak = stats.segments.peak;
    result_.maps = stats.maps;
    result_.unmaps = stats.unmaps;
    return std::move(result_);
  }

  const ReplayTrace& trace_;
  const AllocConf& settings_;
  bool follow_;
  CachingAllocatorModel model_;
  std::vector<AllocatorBlock*> blocks_;
  std::size_t next_address_ = 0;
  std::int64_t peak_ = 0;
  ReplayResult result_;
};

}  // namespace

ReplayResult replay(const ReplayTrace& trace, const AllocConf& settings, const ReplayLimits& limits) {
  AllocatorDevice device;
  if (limits.capacity) device.capacity = limits.capacity->count();
  else if (trace.capacity) device.capacity = trace.capacity->count();
  if (limits.total_memory) device.total_memory = limits.total_memory->count();
  return Replay(trace, settings, device).run();
}

AllocConf recorded_settings(const ReplayTrace& trace) {
  AllocConf settings = trace.settings;
  if (!settings.memory_limit && trace.limit_at_least) settings.memory_limit = trace.limit_at_least;
  return settings;
}

ReplayCheck check_replay(const ReplayTrace& trace, const ReplayLimits& limits) {
  ReplayCheck check;
  check.result = replay(trace, recorded_settings(trace), limits);
  const auto recorded = static_cast<double>(trace.recorded.reserved_peak);
  const auto replayed = static_cast<double>(check.result.reserved_peak.count());
  if (recorded > 0) check.reserved_error_percent = 100.0 * (replayed - recorded) / recorded;
  check.segments_recorded = trace.recorded.segments_allocated + trace.recorded.segments_mapped;
  check.segments_replayed = check.result.segments_allocated + check.result.maps;
  check.same_ooms = check.result.ooms == trace.recorded.ooms;
  return check;
}

}  // namespace triage::signatures
