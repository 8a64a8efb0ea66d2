#include "signatures/memory/allocator_model.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "signatures/memory/allocator_pool.hpp"

namespace triage::signatures {
namespace {
using State = AllocatorBlock::State;
constexpr std::uint64_t kTopOfAddresses = std::uint64_t{1} << 47;   // user address space of x86-64; segments grow down from it
constexpr std::uint64_t kFirstRange = std::uint64_t{1} << 48;       // expandable segments lie apart from all others
constexpr std::int64_t kUnknownDevice = std::int64_t{1} << 40;      // address space where the device's size is not known
}  // namespace

CachingAllocatorModel::CachingAllocatorModel(const AllocConf& settings, const AllocatorDevice& device)
    : settings_(settings), capacity_(device.capacity), addresses_(kTopOfAddresses), next_range_(kFirstRange) {
  max_split_ = settings.max_split_size ? settings.max_split_size->count() : std::numeric_limits<std::int64_t>::max();
  if (settings.memory_limit) limit_ = settings.memory_limit->count();
  if (settings.per_process_memory_fraction && *settings.per_process_memory_fraction < 1.0 && device.total_memory) {
    const auto share =
        static_cast<std::int64_t>(*settings.per_process_memory_fraction * static_cast<double>(*device.total_memory));
    limit_ = limit_ ? std::min(*limit_, share) : share;
  }
  // An eighth more than the device has, so that pages can move.
  const std::int64_t total = device.total_memory ? *device.total_memory : capacity_ ? *capacity_ : kUnknownDevice;
  range_bytes_ = std::clamp(total, 64 * allocator::kMiB, allocator::kMostBytes);
  range_bytes_ += range_bytes_ / 8;
}

CachingAllocatorModel::~CachingAllocatorModel() = default;

AllocatorBlockPool& CachingAllocatorModel::pool_of(std::uint16_t stream, std::uint16_t pool, bool small) {
  const std::uint64_t key = std::uint64_t{stream} << 17 | std::uint64_t{pool} << 1 | (small ? 1U : 0U);
  AllocatorBlockPool*& known = by_key_[key];
  if (known) return *known;
  auto made = std::make_unique<AllocatorBlockPool>();
  made->stream = stream;
  made->number = pool;
  made->small = small;
  pools_.push_back(std::move(made));
  known = pools_.back().get();
  return *known;
}

AllocatorBlock* CachingAllocatorModel::new_block() {
  if (unused_.empty()) return &arena_.emplace_back();
  AllocatorBlock* block = unused_.back();
  unused_.pop_back();
  *block = AllocatorBlock{};
  return block;
}

void CachingAllocatorModel::delete_block(AllocatorBlock* block) {
  block->pool = nullptr;
  block->owner = AllocatorBlock::kNobody;
  unused_.push_back(block);
}

void CachingAllocatorModel::cache(AllocatorBlock* block) {
  block->state = State::cached;
  block->owner = AllocatorBlock::kNobody;
  block->age_base = large_searches_;
  block->pool->cached.insert(block);
}

AllocatorBlock* CachingAllocatorModel::malloc(std::int64_t bytes, std::uint16_t stream, std::uint16_t pool,
                                              std::uint64_t address, std::int64_t address_bytes) {
  assert(allocator::plausible(bytes));
  Search search;
  search.size = block_size(bytes, settings_);
  search.segment = segment_size(search.size, settings_);
  search.pool = &pool_of(stream, pool, search.size <= allocator::kSmallLimit);
  search.expandable = settings_.expandable_segments && !traits_of(pool).own_allocator;
  search.address = address;
  search.address_bytes = address_bytes;
  if (!find_cached(search)) {
    if (limit_ && settings_.garbage_collection_threshold > 0) collect_garbage();
    bool found = from_driver(search, false) || (release_oversize(search) && from_driver(search, false));
    // While a graph is captured (a request to a private pool) the cache is not released.
    if (!found && pool == 0) {
      release_all();
      found = from_driver(search, true);
    }
    if (!found) {
      ++stats_.ooms;
      return nullptr;
    }
  }
  return hand_out(search, bytes);
}

// Best fit: the smallest cached block of the stream that is large enough, at the lowest address among equals.
bool CachingAllocatorModel::find_cached(Search& search) {
  auto& cached = search.pool->cached;
  if (limit_ && settings_.garbage_collection_threshold > 0 && !search.pool->small && search.pool->number == 0) ++large_searches_;
  AllocatorBlock key;
  key.size = search.size;
  auto it = cached.lower_bound(&key);
  if (it == cached.end()) return false;
  if ((*it)->range && search.expandable) {
    // A block at the end of the mapped part counts with the address space behind it: others are taken first.
    const auto room = [](const AllocatorBlock* block) {
      return block->size + (block->next && block->next->state == State::unmapped ? block->next->size : 0);
    };
    for (auto next = std::next(it); (*it)->range && next != cached.end() && room(*next) < room(*it); ++next) it = next;
  } else if ((*it)->range) {
    while (it != cached.end() && (*it)->range) ++it;
    if (it == cached.end()) return false;
  }
  const std::int64_t size = (*it)->size;
  if (search.size < max_split_ && size >= max_split_) return false;
  if (search.size >= max_split_ && size - search.size >= settings_.max_non_split_rounding.count()) return false;
  search.found = *it;
  cached.erase(it);
  return true;
}

AllocatorBlock* CachingAllocatorModel::restore(std::int64_t bytes, std::uint16_t stream, std::uint16_t pool, std::uint64_t address) {
  for (const bool small : {true, false}) {
    AllocatorBlockPool& shelf = pool_of(stream, pool, small);
    const auto found = std::find_if(shelf.cached.begin(), shelf.cached.end(), [&](const AllocatorBlock* block) { return block->address == address; });
    if (found == shelf.cached.end() || (*found)->size < bytes) continue;
    Search search;
    search.size = bytes;
    search.pool = &shelf;
    search.found = *found;
    search.exact = true;
    shelf.cached.erase(found);
    return hand_out(search, bytes);
  }
  return nullptr;
}

bool CachingAllocatorModel::splits(const AllocatorBlock& block, std::int64_t size) const {
  const std::int64_t rest = block.size - size;
  const PoolTraits traits = traits_of(block.pool->number);
  if (traits.no_split) return false;
  if (block.pool->small || (settings_.expandable_segments && !traits.own_allocator)) return rest >= allocator::kBlockUnit;
  return size < max_split_ && rest > allocator::kSmallLimit;
}

AllocatorBlock* CachingAllocatorModel::hand_out(const Search& search, std::int64_t bytes) {
  AllocatorBlock* block = search.found;
  const bool was_split = block->split();
  if (search.exact ? block->size > search.size : splits(*block, search.size)) {
    AllocatorBlock* rest = block;
    block = new_block();
    block->pool = rest->pool;
    block->range = rest->range;
    block->address = rest->address;
    block->size = search.size;
    block->prev = rest->prev;
    if (block->prev) block->prev->next = block;
    block->next = rest;
    rest->prev = block;
    rest->address += static_cast<std::uint64_t>(search.size);
    rest->size -= search.size;
    cache(rest);
    if (!block->range) stats_.inactive_split.add(was_split ? -block->size : rest->size);
  } else if (was_split && !block->range) {
    stats_.inactive_split.add(-block->size);
  }
  block->state = State::allocated;
  block->requested = bytes;
  stats_.allocated.add(block->size);
  stats_.active.add(block->size);
  stats_.requested.add(bytes);
  return block;
}

void CachingAllocatorModel::free_requested(AllocatorBlock* block) {
  assert(block->state == State::allocated);
  block->state = State::pending;
  stats_.allocated.add(-block->size);
  pending_.insert(block);
}

void CachingAllocatorModel::free_completed(AllocatorBlock* block) {
  assert(block->state == State::pending);
  pending_.erase(block);
  const std::int64_t size = block->size;
  stats_.requested.add(-block->requested);
  std::int64_t change = -merge(block, block->prev);
  change -= merge(block, block->next);
  cache(block);
  if (block->split()) change += block->size;
  if (!block->range) stats_.inactive_split.add(change);
  stats_.active.add(-size);
}

void CachingAllocatorModel::free(AllocatorBlock* block) {
  assert(block->state == State::allocated);
  block->state = State::pending;
  stats_.allocated.add(-block->size);
  free_completed(block);
}

// `neighbour` becomes a part of `block`, which is in no set. Returns its bytes; 0: it cannot.
std::int64_t CachingAllocatorModel::merge(AllocatorBlock* block, AllocatorBlock* neighbour) {
  const State wanted = block->state == State::unmapped ? State::unmapped : State::cached;
  if (!neighbour || neighbour->state != wanted) return 0;
  AllocatorBlockPool& pool = *block->pool;
  if (wanted == State::unmapped) pool.unmapped.erase(neighbour);
  else pool.cached.erase(neighbour);
  if (block->prev == neighbour) {
    block->address = neighbour->address;
    block->prev = neighbour->prev;
    if (block->prev) block->prev->next = block;
  } else {
    block->next = neighbour->next;
    if (block->next) block->next->prev = block;
  }
  const std::int64_t bytes = neighbour->size;
  block->size += bytes;
  delete_block(neighbour);
  return bytes;
}

bool CachingAllocatorModel::add_segment(const StartSegment& segment, std::vector<AllocatorBlock*>& blocks) {
  std::int64_t sum = 0;
  for (const StartBlock& block : segment.blocks) {
    if (block.bytes <= 0 || block.bytes > segment.bytes - sum || (block.in_use && block.block >= blocks.size())) return false;
    sum += block.bytes;
  }
  if (sum == 0 || sum != segment.bytes || !addresses_.take_at(segment.address, segment.bytes)) return false;
  AllocatorBlockPool& pool = pool_of(segment.stream, segment.pool, !segment.large);
  std::uint64_t address = segment.address;
  AllocatorBlock* before = nullptr;
  for (const StartBlock& start : segment.blocks) {
    AllocatorBlock* block = new_block();
    block->pool = &pool;
    block->address = address;
    block->size = start.bytes;
    block->requested = start.requested;
    block->prev = before;
    if (before) before->next = block;
    before = block;
    address += static_cast<std::uint64_t>(start.bytes);
    if (start.in_use) {
      block->state = State::allocated;
      block->owner = start.block;
      blocks[start.block] = block;
      stats_.allocated.add(block->size);
      stats_.active.add(block->size);
      stats_.requested.add(block->requested);
    } else {
      cache(block);
      if (segment.blocks.size() > 1) stats_.inactive_split.add(block->size);
    }
  }
  stats_.segments.add(1);
  stats_.reserved.add(segment.bytes);
  return true;
}

}  // namespace triage::signatures
