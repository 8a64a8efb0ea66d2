// The rules that CachingAllocatorModel holds between two calls. Used by tests; a release build never calls it.
#include <algorithm>

#include "signatures/memory/allocator_model.hpp"
#include "signatures/memory/allocator_pool.hpp"

namespace triage::signatures {
namespace {
using State = AllocatorBlock::State;
std::uint64_t end_of(const AllocatorBlock& block) { return block.address + static_cast<std::uint64_t>(block.size); }
}  // namespace

const char* CachingAllocatorModel::broken_block(const AllocatorBlock& block) const {
  auto* self = const_cast<AllocatorBlock*>(&block);
  if (block.size <= 0) return "a block without bytes";
  if (block.state != State::unmapped && block.size % allocator::kBlockUnit != 0) return "a block of an odd size";
  if (block.next && (block.next->prev != self || block.next->address != end_of(block))) return "neighbours that do not touch";
  if (block.prev && block.prev->next != self) return "neighbours that do not know each other";
  if (block.next && block.next->pool != block.pool) return "neighbours of two pools";
  const bool idle = block.state == State::cached || block.state == State::unmapped;
  if (idle && block.next && block.next->state == block.state) return "neighbours that should be one block";
  if (block.pool->cached.contains(self) != (block.state == State::cached)) return "the set of cached blocks is wrong";
  if (block.pool->unmapped.contains(self) != (block.state == State::unmapped)) return "the set of unmapped blocks is wrong";
  if (block.state == State::unmapped && !block.range) return "an unmapped block outside an expandable segment";
  if (pending_.contains(self) != (block.state == State::pending)) return "the set of pending blocks is wrong";
  return nullptr;
}

const char* CachingAllocatorModel::broken() const {
  std::vector<const AllocatorBlock*> blocks;
  std::int64_t allocated = 0, active = 0, reserved = 0, split = 0, segments = 0;
  for (const AllocatorBlock& block : arena_) {
    if (!block.pool) continue;
    if (const char* fault = broken_block(block)) return fault;
    blocks.push_back(&block);
    if (block.state != State::unmapped) reserved += block.size;
    if (block.state == State::allocated) allocated += block.size;
    if (block.state == State::allocated || block.state == State::pending) active += block.size;
    if (block.state == State::cached && block.split() && !block.range) split += block.size;
    if (!block.prev && !block.range) ++segments;
  }
  std::sort(blocks.begin(), blocks.end(), [](const auto* a, const auto* b) { return a->address < b->address; });
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i]->address < end_of(*blocks[i - 1])) return "blocks that overlap";
  if (allocated != stats_.allocated.now) return "the sum of allocated bytes is wrong";
  if (active != stats_.active.now) return "the sum of active bytes is wrong";
  if (reserved != stats_.reserved.now) return "the sum of reserved bytes is wrong";
  if (split != stats_.inactive_split.now) return "the sum of inactive split bytes is wrong";
  if (segments != stats_.segments.now) return "the count of segments is wrong";
  if (allocated > reserved) return "more is allocated than reserved";
  if (capacity_ && reserved > *capacity_) return "more is reserved than the device has";
  if (limit_ && reserved > *limit_ && !settings_.expandable_segments) return "more is reserved than the limit";
  return nullptr;
}

}  // namespace triage::signatures
