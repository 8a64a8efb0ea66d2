// The half of ReplayTraceBuilder that rebuilds what stood on the device when the recording began.
#include <algorithm>

#include "signatures/memory/replay_recording.hpp"

namespace triage::signatures {
namespace {

// Ranges of mapped memory, as address -> end.
using Mapped = std::map<std::uint64_t, std::uint64_t>;

void map_range(Mapped& mapped, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto it = mapped.upper_bound(end);
  while (it != mapped.begin() && std::prev(it)->second >= begin) {
    --it;
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = mapped.erase(it);
  }
  mapped[begin] = end;
}

void unmap_range(Mapped& mapped, std::uint64_t begin, std::uint64_t end) {
  auto it = mapped.upper_bound(begin);
  if (it != mapped.begin() && std::prev(it)->second > begin) --it;
  while (it != mapped.end() && it->first < end) {
    const std::uint64_t from = it->first, to = it->second;
    it = mapped.erase(it);
    if (from < begin) mapped[from] = begin;
    if (to > end) mapped[end] = to;
  }
}

}  // namespace

// Segments: those of the end that no event made, and those that went without having been made. Blocks: those that are in use at
// the end or were freed, and no event gave them out.
void ReplayTraceBuilder::rebuild_start() {
  std::map<std::uint64_t, Segment> start;
  Mapped mapped;
  for (const auto& [address, segment] : last_) {
    if (segment.expandable) map_range(mapped, address, address + static_cast<std::uint64_t>(segment.bytes));
    else if (!segments_.contains(address)) start.emplace(address, segment);
  }
  // Backwards: what was mapped was not there before, what was unmapped was.
  for (auto step = maps_.rbegin(); step != maps_.rend(); ++step) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(step->second < 0 ? -step->second : step->second);
    if (step->first + bytes < step->first) continue;
    if (step->second > 0) unmap_range(mapped, step->first, step->first + bytes);
    else map_range(mapped, step->first, step->first + bytes);
  }
  for (const auto& [address, segment] : gone_) start.emplace(address, segment);
  const bool gone_unknown = !gone_.empty();

  std::vector<Before> blocks = before_;
  for (const Before& block : last_blocks_) {
    const auto live = live_.find(block.address);
    if (live == live_.end()) {
      blocks.push_back(block);
      blocks.back().block = out_.blocks++;
    }
  }
  // A block that an event found pending and that is in use at the end has both; the exact one counts.
  std::sort(blocks.begin(), blocks.end(), [](const Before& a, const Before& b) {
    return a.address != b.address ? a.address < b.address : a.bytes > b.bytes;
  });

  for (const auto& [begin, end] : mapped) {
    Segment segment;
    segment.bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(end - begin, std::uint64_t{1} << 42));
    segment.expandable = true;
    const auto near = last_.upper_bound(begin);
    if (near != last_.begin()) {
      const Segment& known = std::prev(near)->second;
      segment.stream = known.stream;
      segment.pool = known.pool;
      segment.large = known.large;
    }
    start[begin] = segment;
  }
  std::size_t next = 0;
  for (const auto& [address, segment] : start) {
    while (next < blocks.size() && blocks[next].address < address) ++next, ++out_.skipped;
    const std::size_t first = next;
    const std::uint64_t end = address + static_cast<std::uint64_t>(segment.bytes);
    while (next < blocks.size() && blocks[next].address < end) ++next;
    StartSegment out;
    out.address = address;
    out.bytes = segment.bytes;
    out.stream = stream_of(segment.stream);
    out.pool = segment.pool;
    out.expandable = segment.expandable;
    out.large = segment.large;
    // A segment that is gone: only a small one is of 2 MiB, but a block over 1 MiB cannot lie in a small one.
    if (gone_unknown && !segment.expandable && !last_.contains(address)) {
      out.large = segment.bytes != allocator::kSmallSegment;
      for (std::size_t i = first; i < next; ++i) out.large = out.large || blocks[i].requested > allocator::kSmallLimit;
    }
    lay_out(out, blocks, first, next);
    out_.start.push_back(std::move(out));
  }
  out_.skipped += blocks.size() - next;
}

// Blocks in order of address, with cached ones between them. The size of a block that was freed since is its request rounded
// up; in a segment of the large pool also a rest of up to 1 MiB behind it, which is never split off.
void ReplayTraceBuilder::lay_out(StartSegment& segment, std::vector<Before>& blocks, std::size_t first, std::size_t last) const {
  const auto bytes_between = [](std::uint64_t from, std::uint64_t to) { return static_cast<std::int64_t>(to - from); };
  std::uint64_t at = segment.address;
  const std::uint64_t end = segment.address + static_cast<std::uint64_t>(segment.bytes);
  for (std::size_t i = first; i < last; ++i) {
    const Before& block = blocks[i];
    if (block.address < at) continue;   // two claims on one place: the first stays
    std::uint64_t limit = end;
    for (std::size_t j = i + 1; j < last; ++j)
      if (blocks[j].address > block.address) {
        limit = blocks[j].address;
        break;
      }
    const std::int64_t room = bytes_between(block.address, limit);
    std::int64_t bytes = block.bytes;
    if (bytes == 0) {
      bytes = block_size(block.requested, out_.settings);
      if (segment.large && !segment.expandable && room - bytes <= allocator::kSmallLimit) bytes = room;
    }
    bytes = std::min(bytes, room);
    if (bytes <= 0) continue;
    if (block.address > at) segment.blocks.push_back({bytes_between(at, block.address), 0, 0, false});
    segment.blocks.push_back({bytes, std::min(block.requested, bytes), block.block, true});
    at = block.address + static_cast<std::uint64_t>(bytes);
  }
  if (at < end) segment.blocks.push_back({bytes_between(at, end), 0, 0, false});
}

}  // namespace triage::signatures
