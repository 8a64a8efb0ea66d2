#include "signatures/memory/replay_recording.hpp"

#include <algorithm>
#include <limits>

namespace triage::signatures {
namespace {

using parsers::Bytes;
using parsers::TraceAction;
using parsers::TraceEvent;

constexpr std::size_t kMostRequests = 200'000'000;               // 6 GiB of requests; PyTorch's own buffer is far smaller
constexpr std::uint16_t kMostNumbers = 4096;                     // streams or pools; more share the last number

}  // namespace

ReplayTraceBuilder::ReplayTraceBuilder(AllocConf settings, bool frees_complete, IsEmptyCache is_empty_cache)
    : frees_complete_(frees_complete), is_empty_cache_(std::move(is_empty_cache)) {
  out_.settings = std::move(settings);
  pools_.emplace(parsers::PoolId{}, std::uint16_t{0});
}

std::uint16_t ReplayTraceBuilder::stream_of(std::uint64_t stream) {
  const auto number = static_cast<std::uint16_t>(std::min<std::size_t>(streams_.size(), kMostNumbers - 1));
  const std::uint16_t known = streams_.size() < kMostNumbers ? streams_.try_emplace(stream, number).first->second : number;
  out_.streams = std::max<std::uint16_t>(out_.streams, static_cast<std::uint16_t>(known + 1));
  return known;
}

std::uint16_t ReplayTraceBuilder::pool_of(const parsers::PoolId& pool) {
  const auto number = static_cast<std::uint16_t>(std::min<std::size_t>(pools_.size(), kMostNumbers - 1));
  const std::uint16_t known = pools_.size() < kMostNumbers ? pools_.try_emplace(pool, number).first->second : number;
  out_.pools = std::max<std::uint16_t>(out_.pools, static_cast<std::uint16_t>(known + 1));
  return known;
}

// Most recordings state no pool with an event: then it is that of the segment in which the block lies.
std::uint16_t ReplayTraceBuilder::pool_at(std::uint64_t address, const parsers::PoolId& stated) {
  if (!stated.is_default()) return pool_of(stated);
  if (out_.pools == 1) return 0;
  for (const auto* segments : {&segments_, &last_}) {
    auto segment = segments->upper_bound(address);
    if (segment == segments->begin()) continue;
    --segment;
    if (address - segment->first < static_cast<std::uint64_t>(segment->second.bytes)) return segment->second.pool;
  }
  return 0;
}

void ReplayTraceBuilder::segment(const parsers::SnapshotSegment& segment, std::span<const parsers::SnapshotBlock> blocks) {
  if (!allocator::plausible(segment.total_size) || segment.total_size == 0) return void(++out_.skipped);
  Segment& known = last_[segment.address];
  known.bytes = segment.total_size;
  known.stream = segment.stream;
  known.pool = pool_of(segment.pool);
  known.large = segment.large;
  known.expandable = segment.expandable;
  if (known.pool != 0 && !segment.expandable && out_.settings.expandable_segments) traits_of(known.pool).own_allocator = true;
  std::uint64_t address = segment.address;
  for (const parsers::SnapshotBlock& block : blocks) {
    if (!allocator::plausible(block.size)) return void(++out_.skipped);
    if (known.pool != 0 && !segment.expandable && block.state != parsers::BlockState::inactive && !out_.settings.max_split_size &&
        block.size - block_size(std::clamp<std::int64_t>(block.requested_size, 0, allocator::kMostBytes), out_.settings) >
            (segment.large ? allocator::kSmallLimit : 0))
      traits_of(known.pool).no_split = true;
    if (block.state != parsers::BlockState::inactive && last_blocks_.size() < std::numeric_limits<std::uint32_t>::max())
      last_blocks_.push_back({address, allocator::plausible(block.requested_size) ? block.requested_size : block.size, block.size, 0});
    address += static_cast<std::uint64_t>(block.size);
  }
}

PoolTraits& ReplayTraceBuilder::traits_of(std::uint16_t pool) {
  if (out_.pool_traits.size() <= pool) out_.pool_traits.resize(std::size_t{pool} + 1);
  return out_.pool_traits[pool];
}

void ReplayTraceBuilder::reserve(std::int64_t change) {
  reserved_ += change;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
}

void ReplayTraceBuilder::add(Kind kind, const TraceEvent& event, std::uint32_t block) {
  AllocatorRequest request;
  request.kind = kind;
  request.bytes = event.size;
  request.block = block;
  request.stack = event.stack;
  request.event = event_;
  request.stream = stream_of(event.stream);
  if (kind == Kind::alloc) request.pool = pool_at(event.address, event.pool);
  if (kind == Kind::failed_alloc) request.pool = pool_of(event.pool);
  out_.requests.push_back(request);
}

void ReplayTraceBuilder::event(const TraceEvent& event) {
  const bool gives_back = event.action == TraceAction::segment_free || event.action == TraceAction::segment_unmap;
  if (out_.requests.size() >= kMostRequests) {
    ++out_.skipped;
  } else if (event.action != TraceAction::oom && event.action != TraceAction::snapshot && !allocator::plausible(event.size)) {
    ++out_.skipped;
  } else {
    if (event.action != TraceAction::alloc) row_.reset();
    if (release_ && !gives_back && event.action != TraceAction::free_completed) end_release(event);
    switch (event.action) {
      case TraceAction::alloc: alloc(event); break;
      case TraceAction::free_requested: free_requested(event); break;
      case TraceAction::free_completed: free_completed(event); break;
      case TraceAction::segment_alloc: segment_made(event, false); break;
      case TraceAction::segment_map: segment_made(event, true); break;
      case TraceAction::segment_free: segment_gone(event, false); break;
      case TraceAction::segment_unmap: segment_gone(event, true); break;
      case TraceAction::oom: out_of_memory(event); break;
      default: break;
    }
  }
  ++event_;
}

void ReplayTraceBuilder::alloc(const TraceEvent& event) {
  const auto known = live_.find(event.address);
  if (known != live_.end()) {
    // Given out twice: its free is not in the recording, or the block was freed and the recorder does not note completions.
    if (!known->second.pending) ++out_.skipped;
    TraceEvent freed = event;
    freed.size = known->second.bytes;
    row_.reset();
    add(known->second.pending ? Kind::free_completed : Kind::free, freed, known->second.block);
    allocated_ -= known->second.pending ? 0 : block_size(known->second.bytes, out_.settings);
    live_.erase(known);
  }
  if (made_) {
    made_->request = static_cast<std::uint32_t>(out_.requests.size());
    out_.addresses.push_back(*made_);
    made_.reset();
  }
  add(Kind::alloc, event, out_.blocks);
  if (out_.requests.back().pool != 0) note_restored(event.address, event.size);
  live_[event.address] = {out_.blocks, event.size, false, 0};
  ++out_.blocks;
  allocated_ += block_size(event.size, out_.settings);
  allocated_peak_ = std::max(allocated_peak_, allocated_);
}

// The last request, in a private pool. Marks the row that it ends, if it fills a segment.
void ReplayTraceBuilder::note_restored(std::uint64_t address, std::int64_t bytes) {
  const std::size_t at = out_.requests.size() - 1;
  const auto size = static_cast<std::uint64_t>(bytes);
  const auto segment = segments_.find(address);
  if (segment != segments_.end()) {
    row_ = Row{address, address + static_cast<std::uint64_t>(segment->second.bytes), address, at};
  } else if (!row_ || row_->next != address || row_->first + (at - row_->first) != at) {
    row_.reset();
    return;
  }
  if (size == 0 || bytes % allocator::kBlockUnit != 0 || size > row_->end - row_->next) return row_.reset();
  row_->next += size;
  if (row_->next != row_->end || at == row_->first) return;
  std::uint64_t place = row_->begin;
  // The row's first request may have an address already: of the segment that was made for it, and then nothing is restored.
  if (!out_.addresses.empty() && out_.addresses.back().request >= row_->first) return row_.reset();
  for (std::size_t i = row_->first; i <= at; ++i) {
    out_.requests[i].restored = true;
    out_.addresses.push_back({static_cast<std::uint32_t>(i), place, out_.requests[i].bytes});
    place += static_cast<std::uint64_t>(out_.requests[i].bytes);
  }
  row_.reset();
}

// The block of an event about which nothing is known yet: it was given out before the recording began.
ReplayTraceBuilder::Live& ReplayTraceBuilder::live_before(const TraceEvent& event) {
  before_.push_back({event.address, event.size, 0, out_.blocks});
  Live& live = live_[event.address];
  live = {out_.blocks, event.size, false, 0};
  ++out_.blocks;
  return live;
}

void ReplayTraceBuilder::free_requested(const TraceEvent& event) {
  const auto known = live_.find(event.address);
  Live& live = known == live_.end() ? live_before(event) : known->second;
  if (live.pending) return void(++out_.skipped);
  allocated_ -= block_size(live.bytes, out_.settings);
  if (!frees_complete_) {
    add(Kind::free, event, live.block);
    live_.erase(event.address);
    return;
  }
  live.pending = true;
  live.request = static_cast<std::uint32_t>(out_.requests.size());
  add(Kind::free_requested, event, live.block);
}

void ReplayTraceBuilder::free_completed(const TraceEvent& event) {
  const auto known = live_.find(event.address);
  Live& live = known == live_.end() ? live_before(event) : known->second;
  if (!live.pending) {
    allocated_ -= block_size(live.bytes, out_.settings);
    add(Kind::free, event, live.block);
  } else if (live.request + 1 == out_.requests.size()) {
    out_.requests.back().kind = Kind::free;   // at once: no other stream used it
  } else {
    add(Kind::free_completed, event, live.block);
  }
  live_.erase(event.address);
}

void ReplayTraceBuilder::segment_made(const TraceEvent& event, bool mapped) {
  reserve(event.size);
  ++(mapped ? out_.recorded.segments_mapped : out_.recorded.segments_allocated);
  if (mapped) {
    maps_.emplace_back(event.address, event.size);
    return;
  }
  made_ = RecordedSegmentAddress{0, event.address, event.size};
  Segment& segment = segments_[event.address];
  segment = Segment{};
  segment.bytes = event.size;
  segment.stream = event.stream;
  const auto last = last_.find(event.address);
  if (next_made_ < made_pools_.size()) segment.pool = pool_of(made_pools_[next_made_++]);
  else segment.pool = !event.pool.is_default() ? pool_of(event.pool) : last != last_.end() ? last->second.pool : std::uint16_t{0};
}

// A segment of that pool goes in the present release. One of a private pool goes only when nothing holds the pool any more; when that
// began is not recorded.
void ReplayTraceBuilder::release_of(std::uint16_t pool, const TraceEvent& event) {
  Release& release = *release_;
  if (pool == 0) {
    if (release.all) return;
    release.all = true;
    release.requests.push_back(out_.requests.size());
    add(Kind::empty_cache, event, 0);
    return;
  }
  if (std::find(release.pools.begin(), release.pools.end(), pool) != release.pools.end()) return;
  release.pools.push_back(pool);
  if (pools_done_.size() <= pool) pools_done_.resize(std::size_t{pool} + 1, false);
  const bool done = pools_done_[pool];
  pools_done_[pool] = true;
  if (done && release.all) return;
  if (!done) {
    add(Kind::pool_done, event, 0);
    out_.requests.back().pool = pool;
  }
  release.requests.push_back(out_.requests.size());
  add(Kind::empty_cache, event, 0);
  out_.requests.back().pool = pool;
}

void ReplayTraceBuilder::segment_gone(const TraceEvent& event, bool mapped) {
  if (!release_) {
    release_ = Release{{}, false, {}, reserved_, 0, event.stack, 0, false};
  }
  const auto standing = segments_.find(event.address);
  release_of(!event.pool.is_default() ? pool_of(event.pool) : !mapped && standing != segments_.end() ? standing->second.pool : pool_at(event.address, {}), event);
  if (is_empty_cache_ && event.stack != 0 && !release_->by_hand) release_->by_hand = is_empty_cache_(event.stack);
  reserve(-event.size);
  ++(mapped ? out_.recorded.segments_unmapped : out_.recorded.segments_freed);
  if (mapped) {
    maps_.emplace_back(event.address, -event.size);
  } else if (segments_.erase(event.address) == 0) {
    Segment segment;
    segment.bytes = event.size;
    segment.stream = event.stream;
    gone_.emplace_back(event.address, segment);
  }
}

void ReplayTraceBuilder::end_release(const TraceEvent& next) {
  if (next.action == TraceAction::segment_alloc || next.action == TraceAction::segment_map) release_->wanted = next.size;
  if (next.action == TraceAction::oom)
    release_->wanted = segment_size(block_size(allocator::plausible(next.size) ? next.size : allocator::kMostBytes, out_.settings), out_.settings);
  release_->next_stack = next.stack;
  releases_.push_back(*release_);
  release_.reset();
}

void ReplayTraceBuilder::out_of_memory(const TraceEvent& event) {
  ++out_.recorded.ooms;
  if (!allocator::plausible(event.size)) return void(++out_.skipped);
  add(Kind::failed_alloc, event, 0);
  made_.reset();
  const auto free = static_cast<std::int64_t>(std::min<std::uint64_t>(event.address, static_cast<std::uint64_t>(allocator::kMostBytes)));
  // With enough memory free, it was a limit that PyTorch set to itself. A page more may be missing in an expandable segment.
  const std::int64_t wanted = segment_size(block_size(event.size, out_.settings), out_.settings);
  limited_ = free >= wanted + 2 * out_.settings.large_segment_size.count();
  oom_reserved_ = reserved_;
  oom_free_ = free;
}

// Did the allocator give the segments back itself, for the request that follows? Then both carry the stack of that request.
// Without stacks: there was no room for it before. Where nothing tells how much there was, empty_cache() is assumed, which
// gives back the same.
bool ReplayTraceBuilder::made_room(const Release& release) const {
  if (release.by_hand || release.wanted == 0) return false;
  if (release.stack != 0 && release.next_stack != 0) return release.stack == release.next_stack;
  if (out_.settings.garbage_collection_threshold > 0) return true;
  return oom_reserved_ && !limited_ && release.reserved + release.wanted > *oom_reserved_ + *oom_free_;
}

// Where the allocator made room the replay decides anew.
void ReplayTraceBuilder::decide_releases() {
  if (release_) releases_.push_back(*release_);
  std::vector<bool> drop(out_.requests.size(), false);
  bool any = false;
  for (const Release& release : releases_) {
    if (!made_room(release)) continue;
    for (const std::size_t request : release.requests) drop[request] = any = true;
    ++out_.recorded.retries;
    const std::int64_t too_much = release.reserved + release.wanted;
    if (!retry_short_of_ || too_much < *retry_short_of_) retry_short_of_ = too_much;
  }
  if (!any) return;
  std::vector<std::uint32_t> moved(out_.requests.size() + 1);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < out_.requests.size(); ++i) {
    moved[i] = static_cast<std::uint32_t>(kept);
    if (!drop[i]) out_.requests[kept++] = out_.requests[i];
  }
  out_.requests.resize(kept);
  for (RecordedSegmentAddress& address : out_.addresses) address.request = moved[address.request];
}

ReplayTrace ReplayTraceBuilder::finish() {
  decide_releases();
  std::int64_t end = 0, allocated_end = 0;
  for (const auto& [address, segment] : last_) end += segment.bytes;
  for (const Before& block : last_blocks_) allocated_end += block.bytes;
  rebuild_start();
  out_.complete = out_.start.empty();
  // Without segments in the file, what the events leave is all there is.
  const std::int64_t start = last_.empty() ? std::max<std::int64_t>(0, -reserved_) : end - reserved_;
  out_.recorded.start_reserved = std::max<std::int64_t>(0, start);
  out_.recorded.end_reserved = out_.recorded.start_reserved + reserved_;
  out_.recorded.reserved_peak = out_.recorded.start_reserved + reserved_peak_;
  out_.recorded.allocated_peak = (last_.empty() ? 0 : std::max<std::int64_t>(0, allocated_end - allocated_)) + allocated_peak_;
  if (oom_reserved_ && !limited_)
    out_.capacity = Bytes(std::max(out_.recorded.start_reserved + *oom_reserved_ + *oom_free_, out_.recorded.reserved_peak));
  // Room was made and no request failed: the device held less than what the tightest of them needed.
  if (!oom_reserved_ && retry_short_of_ && out_.settings.garbage_collection_threshold == 0)
    out_.capacity = Bytes(std::max(out_.recorded.start_reserved + *retry_short_of_ - 1, out_.recorded.reserved_peak));
  if (limited_) out_.limit_at_least = Bytes(out_.recorded.reserved_peak);
  return std::move(out_);
}

}  // namespace triage::signatures
