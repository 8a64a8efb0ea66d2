// The half of CachingAllocatorModel that talks to the driver: segments, pages of expandable segments, and giving them back.
#include <algorithm>
#include <cmath>

#include "signatures/memory/allocator_model.hpp"
#include "signatures/memory/allocator_pool.hpp"

namespace triage::signatures {
namespace {
using State = AllocatorBlock::State;
}

bool CachingAllocatorModel::from_driver(Search& search, bool retry) {
  if (retry) ++stats_.retries;
  if (limit_ && stats_.reserved.now > *limit_ - search.segment) return false;
  if (search.expandable) return map_range(search);
  if (capacity_ && stats_.reserved.now > *capacity_ - search.segment) return false;
  std::uint64_t address = 0;
  if (search.address != 0 && search.address_bytes == search.segment && addresses_.take_at(search.address, search.segment))
    address = search.address;
  if (address == 0) address = addresses_.take(search.segment);
  if (address == 0) return false;
  AllocatorBlock* block = new_block();
  block->address = address;
  block->size = search.segment;
  block->pool = search.pool;
  search.found = block;
  stats_.segments.add(1);
  ++stats_.segments_allocated;
  stats_.reserved.add(search.segment);
  return true;
}

// The block at the lowest address from which on there is enough address space that nobody uses, mapped or not. Makes a new
// range where none has it.
AllocatorBlock* CachingAllocatorModel::find_expandable(const Search& search) {
  const auto usable = [](const AllocatorBlock* block) {
    return block && (block->state == State::cached || block->state == State::unmapped);
  };
  for (AllocatorBlock* start : search.pool->unmapped) {
    if (usable(start->prev)) start = start->prev;
    std::int64_t bytes = 0;
    for (const AllocatorBlock* block = start; bytes < search.size && usable(block); block = block->next) bytes += block->size;
    if (bytes >= search.size) return start;
  }
  const std::int64_t page = search.pool->small ? allocator::kSmallSegment : settings_.large_segment_size.count();
  auto range = std::make_unique<AllocatorRange>();
  range->page = page;
  range->size = (range_bytes_ + page - 1) / page * page;
  range->address = next_range_;
  next_range_ += static_cast<std::uint64_t>(range->size) + static_cast<std::uint64_t>(page);
  AllocatorBlock* block = new_block();
  block->address = range->address;
  block->size = range->size;
  block->pool = search.pool;
  block->range = range.get();
  block->state = State::unmapped;
  search.pool->unmapped.insert(block);
  ranges_.push_back(std::move(range));
  return block;
}

bool CachingAllocatorModel::map_range(Search& search) {
  if (search.size > range_bytes_) return false;   // no range can hold it
  AllocatorBlock* block = find_expandable(search);
  if (block->state == State::unmapped && !map_block(block, std::min(block->size, search.size))) return false;
  // A cached block with address space behind it: each step maps some of that and merges the two.
  while (block->size < search.size) {
    AllocatorBlock* behind = block->next;
    if (!map_block(behind, std::min(search.size - block->size, behind->size))) return false;
    block = behind;
  }
  search.pool->cached.erase(block);
  search.found = block;
  return true;
}

// Maps the first `bytes` of an unmapped block, in whole pages; false: the driver has not that many.
bool CachingAllocatorModel::map_block(AllocatorBlock* block, std::int64_t bytes) {
  const std::int64_t page = block->range->page;
  const std::int64_t mapped = (bytes + page - 1) / page * page;
  if (capacity_ && stats_.reserved.now > *capacity_ - mapped) return false;
  AllocatorBlockPool& pool = *block->pool;
  pool.unmapped.erase(block);
  if (mapped < block->size) {
    AllocatorBlock* rest = new_block();
    rest->pool = &pool;
    rest->range = block->range;
    rest->state = State::unmapped;
    rest->address = block->address + static_cast<std::uint64_t>(mapped);
    rest->size = block->size - mapped;
    rest->prev = block;
    rest->next = block->next;
    if (rest->next) rest->next->prev = rest;
    block->next = rest;
    pool.unmapped.insert(rest);
    block->size = mapped;
  }
  block->state = State::cached;
  merge(block, block->prev);
  merge(block, block->next);
  cache(block);
  stats_.reserved.add(mapped);
  ++stats_.maps;
  return true;
}

// Gives the whole pages of a cached block back; what is left at its ends stays cached.
void CachingAllocatorModel::unmap(AllocatorBlock* block) {
  const auto page = static_cast<std::uint64_t>(block->range->page);
  const std::uint64_t base = block->range->address, end = block->address + static_cast<std::uint64_t>(block->size);
  const std::uint64_t from = base + (block->address - base + page - 1) / page * page, to = base + (end - base) / page * page;
  if (from >= to) return;
  AllocatorBlockPool& pool = *block->pool;
  pool.cached.erase(block);
  const auto keep = [&](std::uint64_t address, std::uint64_t bytes) {
    AllocatorBlock* kept = new_block();
    kept->pool = &pool;
    kept->range = block->range;
    kept->address = address;
    kept->size = static_cast<std::int64_t>(bytes);
    return kept;
  };
  if (from > block->address) {
    AllocatorBlock* before = keep(block->address, from - block->address);
    before->prev = block->prev;
    if (before->prev) before->prev->next = before;
    before->next = block;
    block->prev = before;
    cache(before);
  }
  if (to < end) {
    AllocatorBlock* after = keep(to, end - to);
    after->next = block->next;
    if (after->next) after->next->prev = after;
    after->prev = block;
    block->next = after;
    cache(after);
  }
  block->address = from;
  block->size = static_cast<std::int64_t>(to - from);
  stats_.reserved.add(-block->size);
  ++stats_.unmaps;
  block->state = State::unmapped;
  merge(block, block->prev);
  merge(block, block->next);
  pool.unmapped.insert(block);
}

// cudaFree of a segment that is one cached block.
void CachingAllocatorModel::release(AllocatorBlock* block) {
  addresses_.give(block->address);
  stats_.segments.add(-1);
  ++stats_.segments_freed;
  stats_.reserved.add(-block->size);
  block->pool->cached.erase(block);
  delete_block(block);
}

void CachingAllocatorModel::release_pool(AllocatorBlockPool& pool) {
  std::vector<AllocatorBlock*> mapped;
  for (auto it = pool.cached.begin(); it != pool.cached.end();) {
    AllocatorBlock* block = *it++;
    if (block->range) mapped.push_back(block);
    else if (!block->split()) release(block);
  }
  for (AllocatorBlock* block : mapped) {
    unmap(block);
    if (block->split() || block->state != State::unmapped) continue;
    pool.unmapped.erase(block);
    const AllocatorRange* range = block->range;
    ranges_.erase(std::find_if(ranges_.begin(), ranges_.end(), [&](const auto& owner) { return owner.get() == range; }));
    delete_block(block);
  }
}

// All cached segments go back: of the default pool, and of private ones that nothing holds any more.
void CachingAllocatorModel::release_all() {
  const std::set<AllocatorBlock*> waiting(pending_);   // the device is synchronised first
  for (AllocatorBlock* block : waiting) free_completed(block);
  for (const bool small : {false, true})
    for (std::size_t i = 0; i < pools_.size(); ++i)
      if (pools_[i]->small == small && pools_[i]->number == 0) release_pool(*pools_[i]);
  for (const std::uint16_t number : done_) release_private(number);
}

void CachingAllocatorModel::release_private(std::uint16_t number) {
  for (const bool small : {true, false})
    for (std::size_t i = 0; i < pools_.size(); ++i)
      if (pools_[i]->small == small && pools_[i]->number == number) release_pool(*pools_[i]);
}

void CachingAllocatorModel::empty_cache() { release_all(); }

void CachingAllocatorModel::pool_done(std::uint16_t pool) {
  if (pool != 0) done_.insert(pool);
}

void CachingAllocatorModel::empty_pool(std::uint16_t pool) {
  std::vector<AllocatorBlock*> waiting;   // its own events are synchronised first
  for (AllocatorBlock* block : pending_)
    if (block->pool->number == pool) waiting.push_back(block);
  for (AllocatorBlock* block : waiting) free_completed(block);
  release_private(pool);
}

// With max_split_size: gives oversize blocks of the stream back, the one that fits or the largest ones, until there is room.
bool CachingAllocatorModel::release_oversize(const Search& search) {
  if (!settings_.max_split_size) return false;
  auto& cached = search.pool->cached;
  AllocatorBlock key;
  key.size = std::max(search.size, max_split_);
  const auto fits = cached.lower_bound(&key);
  if (fits != cached.end() && !(*fits)->range) {
    if ((*fits)->split()) return false;   // only from before the recording: under this setting no oversize block is split
    release(*fits);
    return true;
  }
  std::int64_t released = 0;
  for (auto it = fits; it != cached.begin() && released < key.size;) {
    AllocatorBlock* block = *--it;
    if (block->size < max_split_) break;
    if (block->range || block->split()) continue;
    released += block->size;
    ++it;
    release(block);
  }
  return released >= key.size;
}

// Gives back whole cached segments that were not taken for longer than the average of them, until the amount over the threshold
// is gone.
void CachingAllocatorModel::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold * static_cast<double>(*limit_));
  if (stats_.reserved.now <= threshold) return;
  const std::int64_t target = stats_.reserved.now - threshold;
  const auto each_large = [&](auto&& use) {
    for (const auto& pool : pools_) {
      if (pool->small || pool->number != 0) continue;
      for (auto it = pool->cached.begin(); it != pool->cached.end();) {
        AllocatorBlock* block = *it++;
        if (!block->split()) use(block);
      }
    }
  };
  double total_age = 0;
  std::int64_t count = 0;
  const auto age = [&](const AllocatorBlock* block) { return static_cast<double>(large_searches_ - block->age_base); };
  each_large([&](AllocatorBlock* block) { total_age += age(block), ++count; });
  std::int64_t reclaimed = 0;
  for (bool freed = true; reclaimed < target && freed && count > 0;) {
    const double bound = total_age / static_cast<double>(count);
    freed = false;
    each_large([&](AllocatorBlock* block) {
      if (block->range || age(block) < bound) return;
      freed = true;
      reclaimed += block->size;
      total_age -= age(block);
      --count;
      release(block);
    });
  }
}

}  // namespace triage::signatures
