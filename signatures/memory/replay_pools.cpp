#include "signatures/memory/replay_pools.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "signatures/memory/empty_cache_stacks.hpp"

namespace triage::signatures {
namespace {

using parsers::PoolId;
using parsers::TraceAction;
using parsers::TraceEvent;

constexpr int kRounds = 4;                        // each finds private segments anew with what the one before found
constexpr std::uint64_t kMostSteps = 50'000'000;  // of looking over all segments after a release of the cache

struct Made {                    // one segment_alloc event
  std::optional<PoolId> known;   // stated by the event or by the dump
  bool held_back = false;        // a release of the cache left it, though nobody used it: it is private
};

// Walks the events and keeps what is free in each segment, to see what a request could have had without cudaMalloc.
class Walk {
 public:
  Walk(const AllocConf& settings, std::vector<Made>& made, const EmptyCacheStacks& by_hand)
      : settings_(settings), made_(made), by_hand_(by_hand), pools_(made.size()) {}

  void event(const TraceEvent& event);
  // Segments were found that belong to a private pool after all: another round may find more.
  bool found_more() const { return found_; }
  std::vector<PoolId> pools() { return std::move(pools_); }

 private:
  using Shelf = std::tuple<PoolId, std::uint64_t, bool>;   // pool, stream, small
  struct Segment {
    std::size_t id = 0;
    std::uint64_t bytes = 0, stream = 0;
    PoolId pool;
    bool small = false, placed = false;                    // placed: its first request has come
    std::map<std::uint64_t, std::uint64_t> free;           // address -> bytes
  };

  Shelf shelf(const Segment& segment) const { return {segment.pool, segment.stream, segment.small}; }
  void add_free(Segment& segment, std::uint64_t address, std::uint64_t bytes) {
    segment.free.emplace(address, bytes);
    sizes_[shelf(segment)].insert(bytes);
  }
  void drop_free(Segment& segment, std::map<std::uint64_t, std::uint64_t>::iterator range) {
    auto& sizes = sizes_[shelf(segment)];
    const auto one = sizes.find(range->second);
    if (one != sizes.end()) sizes.erase(one);
    segment.free.erase(range);
  }
  bool serves(PoolId pool, std::uint64_t stream, bool small, std::uint64_t bytes) const {
    const auto sizes = sizes_.find(Shelf{pool, stream, small});
    return sizes != sizes_.end() && !sizes->second.empty() && *sizes->second.rbegin() >= bytes;
  }
  PoolId choose(const Segment& segment, std::uint64_t bytes);
  std::map<std::uint64_t, Segment>::iterator segment_at(std::uint64_t address);
  void alloc(const TraceEvent& event);
  void free(const TraceEvent& event);
  void release_over(const TraceEvent& next);

  const AllocConf& settings_;
  std::vector<Made>& made_;
  const EmptyCacheStacks& by_hand_;
  std::vector<PoolId> pools_;
  std::size_t next_ = 0;
  std::map<std::uint64_t, Segment> segments_;              // by address; only those that an event made
  std::unordered_map<std::uint64_t, std::uint64_t> blocks_;   // in use or pending: address -> bytes
  std::map<Shelf, std::multiset<std::uint64_t>> sizes_;
  std::unordered_map<std::uint64_t, PoolId> last_used_;    // by stream: where its latest request was served
  std::int64_t private_pools_ = 0;
  bool releasing_ = false, found_ = false;
  std::uint32_t release_stack_ = 0;
  std::uint64_t steps_ = 0;
};

std::map<std::uint64_t, Walk::Segment>::iterator Walk::segment_at(std::uint64_t address) {
  auto segment = segments_.upper_bound(address);
  if (segment == segments_.begin()) return segments_.end();
  --segment;
  return address - segment->first < segment->second.bytes ? segment : segments_.end();
}

// The pool of a segment that was made for a request of `bytes` on its stream, and that is gone at the end.
PoolId Walk::choose(const Segment& segment, std::uint64_t bytes) {
  const auto used = last_used_.find(segment.stream);
  const PoolId latest = used == last_used_.end() ? PoolId{} : used->second;
  const bool by_default = serves(PoolId{}, segment.stream, segment.small, bytes);
  // A capture asks in a row: what comes right after a request to a private pool belongs to it, if that pool had no block for it.
  if (!latest.is_default() && !serves(latest, segment.stream, segment.small, bytes)) return latest;
  if (!made_[segment.id].held_back && !by_default) return {};
  return {-1, ++private_pools_};
}

void Walk::alloc(const TraceEvent& event) {
  const auto found = segment_at(event.address);
  if (found == segments_.end()) return;
  Segment& segment = found->second;
  const auto need = static_cast<std::uint64_t>(block_size(event.size, settings_));
  if (!segment.placed) {
    segment.placed = true;
    segment.small = need <= static_cast<std::uint64_t>(allocator::kSmallLimit);
    segment.pool = made_[segment.id].known ? *made_[segment.id].known : choose(segment, need);
    pools_[segment.id] = segment.pool;
    add_free(segment, found->first, segment.bytes);
  }
  last_used_[segment.stream] = segment.pool;
  auto range = segment.free.upper_bound(event.address);
  if (range == segment.free.begin()) return;
  --range;
  const std::uint64_t begin = range->first, end = begin + range->second;
  if (event.address >= end || need > end - event.address) return;
  drop_free(segment, range);
  if (event.address > begin) add_free(segment, begin, event.address - begin);
  const std::uint64_t rest = end - event.address - need;
  const bool split = rest >= static_cast<std::uint64_t>(segment.small ? allocator::kBlockUnit : allocator::kSmallLimit + 1);
  if (split) add_free(segment, event.address + need, rest);
  blocks_[event.address] = split ? need : need + rest;
}

void Walk::free(const TraceEvent& event) {
  const auto block = blocks_.find(event.address);
  const auto found = segment_at(event.address);
  if (block == blocks_.end() || found == segments_.end()) return;
  Segment& segment = found->second;
  std::uint64_t begin = event.address, bytes = block->second;
  blocks_.erase(block);
  auto after = segment.free.lower_bound(begin);
  if (after != segment.free.end() && after->first == begin + bytes) {
    bytes += after->second;
    drop_free(segment, after);
  }
  auto before = segment.free.lower_bound(begin);
  if (before != segment.free.begin() && (--before)->first + before->second == begin) {
    begin = before->first;
    bytes += before->second;
    drop_free(segment, before);
  }
  add_free(segment, begin, bytes);
}

// The whole cache went back: by empty_cache(), or because the request that follows, with the same stack, found no memory. What nobody
// used and what stayed is of a private pool. A MemPool that dies gives back its own segments alone; its stack is that of no request.
void Walk::release_over(const TraceEvent& next) {
  releasing_ = false;
  const bool for_request = next.stack == release_stack_ && (next.action == TraceAction::segment_alloc || next.action == TraceAction::oom);
  if (!for_request && release_stack_ != 0 && !by_hand_(release_stack_)) return;
  for (auto& [address, segment] : segments_) {
    if (++steps_ > kMostSteps) return;
    Made& made = made_[segment.id];
    if (made.known || !segment.pool.is_default() || segment.free.size() != 1 || segment.free.begin()->second != segment.bytes) continue;
    made.held_back = found_ = true;
  }
}

void Walk::event(const TraceEvent& event) {
  if (event.action != TraceAction::oom && !allocator::plausible(event.size)) {
    next_ += event.action == TraceAction::segment_alloc;   // it has its number all the same
    return;
  }
  const bool gives_back = event.action == TraceAction::segment_free || event.action == TraceAction::segment_unmap;
  if (releasing_ && !gives_back && event.action != TraceAction::free_completed) release_over(event);
  switch (event.action) {
    case TraceAction::segment_alloc: {
      if (next_ >= made_.size()) return;
      Segment segment;
      segment.id = next_++;
      segment.bytes = static_cast<std::uint64_t>(event.size);
      segment.stream = event.stream;
      if (made_[segment.id].known) pools_[segment.id] = *made_[segment.id].known;
      Segment& place = segments_[event.address];   // one that stands there already was lost: the recording contradicts itself
      while (!place.free.empty()) drop_free(place, place.free.begin());
      place = std::move(segment);
      return;
    }
    case TraceAction::segment_free: {
      if (!releasing_) release_stack_ = event.stack;
      releasing_ = true;
      const auto segment = segments_.find(event.address);
      if (segment == segments_.end()) return;
      while (!segment->second.free.empty()) drop_free(segment->second, segment->second.free.begin());
      segments_.erase(segment);
      return;
    }
    case TraceAction::alloc: return alloc(event);
    case TraceAction::free_completed: return free(event);
    default: return;
  }
}

}  // namespace

std::vector<PoolId> segment_pools(const parsers::AllocatorSnapshot& snapshot, int device, const AllocConf& settings) {
  const parsers::AllocatorTrace* trace = snapshot.trace_of(device);
  if (!trace) return {};
  std::vector<Made> made;
  std::unordered_map<std::uint64_t, std::size_t> standing;
  bool frees_complete = false, gone = false;
  TraceEvent event;
  for (auto cursor = trace->events(); cursor.next(event);) {
    frees_complete = frees_complete || event.action == TraceAction::free_completed;
    if (event.action == TraceAction::segment_alloc) {
      standing[event.address] = made.size();
      made.emplace_back();
      if (snapshot.events_name_pools) made.back().known = event.pool;
    } else if (event.action == TraceAction::segment_free) {
      if (const auto one = standing.find(event.address); one != standing.end()) {
        gone = true;
        standing.erase(one);
      }
    }
  }
  for (const parsers::SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device || segment.expandable) continue;
    if (const auto one = standing.find(segment.address); one != standing.end()) made[one->second].known = segment.pool;
  }
  // What the walk rests on is best fit over all free blocks: bounds of splitting, garbage collection and later frees would blur it.
  const bool infer = gone && frees_complete && !snapshot.events_name_pools && !settings.max_split_size && settings.garbage_collection_threshold == 0;
  if (!infer) {
    std::vector<PoolId> pools;
    for (const Made& one : made) pools.push_back(one.known.value_or(PoolId{}));
    return pools;
  }
  const EmptyCacheStacks by_hand(snapshot.stacks);
  for (int round = 1;; ++round) {
    Walk walk(settings, made, by_hand);
    for (auto cursor = trace->events(); cursor.next(event);) walk.event(event);
    if (!walk.found_more() || round == kRounds) return walk.pools();
  }
}

}  // namespace triage::signatures
