// CachingAllocatorModel: PyTorch's native CUDA caching allocator of one device, without a device. It keeps the same blocks and
// makes the same decisions as pytorch/pytorch: c10/cuda/CUDACachingAllocator.cpp (2.11): rounding, best fit, splitting,
// merging, segments of the driver, expandable segments, garbage collection, release of the cache before a retry, private pools.
// It does not know of events of streams: the trace says when a block that other streams use becomes free.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "signatures/memory/allocator_address_space.hpp"
#include "signatures/memory/alloc_conf.hpp"
#include "signatures/memory/replay_trace.hpp"

namespace triage::signatures {

struct AllocatorBlockPool;
struct AllocatorRange;

// A stretch of device memory, mapped and used by at most one tensor; or address space of an expandable segment without memory.
struct AllocatorBlock {
  enum class State : std::uint8_t { cached, unmapped, allocated, pending };   // pending: freed, other streams still use it
  std::uint64_t address = 0;
  std::int64_t size = 0, requested = 0;
  std::int64_t age_base = 0;              // of garbage collection: count of searches when it became free
  AllocatorBlockPool* pool = nullptr;     // null: this is no block any more
  AllocatorRange* range = nullptr;        // of an expandable segment; else null
  AllocatorBlock* prev = nullptr;         // neighbours in the same segment
  AllocatorBlock* next = nullptr;
  std::uint32_t owner = kNobody;          // name of the block in the trace, while it is allocated or pending
  State state = State::cached;

  static constexpr std::uint32_t kNobody = 0xffffffff;
  bool split() const { return prev || next; }
};

// A current value and the largest it had.
struct AllocatorGauge {
  std::int64_t now = 0, peak = 0;
  void add(std::int64_t amount) {
    now += amount;
    if (now > peak) peak = now;
  }
};

// The names are those of torch.cuda.memory_stats(). Bytes and counts.
struct AllocatorStats {
  AllocatorGauge allocated, active, requested, reserved, inactive_split, segments;
  std::int64_t segments_allocated = 0, segments_freed = 0;   // cudaMalloc, cudaFree
  std::int64_t maps = 0, unmaps = 0;                         // of expandable segments
  std::int64_t retries = 0, ooms = 0;
};

struct AllocatorDevice {
  std::optional<std::int64_t> capacity;       // bytes that the driver could give to this allocator in all
  std::optional<std::int64_t> total_memory;   // of the device: memory fractions and address ranges are shares of it
};

class CachingAllocatorModel {
 public:
  CachingAllocatorModel(const AllocConf& settings, const AllocatorDevice& device);
  ~CachingAllocatorModel();
  CachingAllocatorModel(const CachingAllocatorModel&) = delete;
  CachingAllocatorModel& operator=(const CachingAllocatorModel&) = delete;

  // A block for `bytes` (0 .. allocator::kMostBytes), or null: out of memory. `address`: where a recording saw the segment that was made for
  // this request (bytes of that segment; 0: unknown).
  AllocatorBlock* malloc(std::int64_t bytes, std::uint16_t stream, std::uint16_t pool, std::uint64_t address = 0,
                         std::int64_t address_bytes = 0);
  void free(AllocatorBlock* block);             // both steps
  void free_requested(AllocatorBlock* block);   // `block` is allocated
  void free_completed(AllocatorBlock* block);   // `block` is pending
  void empty_cache();
  void empty_pool(std::uint16_t pool);    // the cached segments of one private pool alone
  // No graph and no MemPool holds the private pool any more: every release of the cache takes it from now on.
  void pool_done(std::uint16_t pool);
  void set_traits(std::vector<PoolTraits> traits) { traits_ = std::move(traits); }   // by number of the pool
  // The block at that place of a private pool, as a checkpoint of the pool puts it back; null: no cached block lies there.
  AllocatorBlock* restore(std::int64_t bytes, std::uint16_t stream, std::uint16_t pool, std::uint64_t address);
  // A segment of the driver as it was when the recording began; blocks in use are written to `blocks` under their names. False:
  // it contradicts itself, or another segment stands there.
  bool add_segment(const StartSegment& segment, std::vector<AllocatorBlock*>& blocks);

  const AllocatorStats& stats() const { return stats_; }
  // Every rule that must hold between two calls: sums, order, no overlap. Empty, or what is broken. Slow.
  const char* broken() const;

 private:
  struct Search;
  AllocatorBlockPool& pool_of(std::uint16_t stream, std::uint16_t pool, bool small);
  AllocatorBlock* new_block();
  void delete_block(AllocatorBlock* block);
  void cache(AllocatorBlock* block);

  const char* broken_block(const AllocatorBlock& block) const;
  bool find_cached(Search& search);
  bool from_driver(Search& search, bool retry);
  bool map_range(Search& search);
  bool map_block(AllocatorBlock* block, std::int64_t bytes);
  AllocatorBlock* find_expandable(const Search& search);
  AllocatorBlock* hand_out(const Search& search, std::int64_t bytes);
  PoolTraits traits_of(std::uint16_t pool) const { return pool < traits_.size() ? traits_[pool] : PoolTraits{}; }
  bool splits(const AllocatorBlock& block, std::int64_t size) const;
  std::int64_t merge(AllocatorBlock* block, AllocatorBlock* neighbour);
  void collect_garbage();
  bool release_oversize(const Search& search);
  void release_all();
  void release_private(std::uint16_t number);
  void release_pool(AllocatorBlockPool& pool);
  void release(AllocatorBlock* block);
  void unmap(AllocatorBlock* block);

  AllocConf settings_;
  std::int64_t max_split_ = 0;                  // the largest value: no bound
  std::optional<std::int64_t> capacity_, limit_;
  std::int64_t range_bytes_ = 0;                // address space of one expandable segment
  AllocatorStats stats_;
  AllocatorAddressSpace addresses_;
  std::uint64_t next_range_ = 0;
  std::vector<std::unique_ptr<AllocatorBlockPool>> pools_;
  std::unordered_map<std::uint64_t, AllocatorBlockPool*> by_key_;   // stream, number and size of a pool
  std::vector<PoolTraits> traits_;
  std::set<std::uint16_t> done_;                // private pools that nothing holds any more
  std::int64_t large_searches_ = 0;             // in the large default pool, while garbage collection is on
  std::vector<std::unique_ptr<AllocatorRange>> ranges_;
  std::deque<AllocatorBlock> arena_;
  std::vector<AllocatorBlock*> unused_;
  std::set<AllocatorBlock*> pending_;
};

}  // namespace triage::signatures
