// Inner parts of CachingAllocatorModel that its source files share: the pool of cached blocks of one stream, and the address
// range of an expandable segment.
#pragma once

#include <cstdint>
#include <set>

#include "signatures/memory/allocator_model.hpp"

namespace triage::signatures {

// Cached blocks of one stream, of one private pool (or the default one), small or large.
struct AllocatorBlockPool {
  struct BySize {
    bool operator()(const AllocatorBlock* a, const AllocatorBlock* b) const {
      if (a->size != b->size) return a->size < b->size;
      return a->address < b->address;
    }
  };
  struct ByAddress {
    bool operator()(const AllocatorBlock* a, const AllocatorBlock* b) const { return a->address < b->address; }
  };
  std::set<AllocatorBlock*, BySize> cached;
  std::set<AllocatorBlock*, ByAddress> unmapped;   // address space of expandable segments
  std::uint16_t stream = 0, number = 0;            // number: 0 the default pool, else a private one
  bool small = false;
};

// Address space for one stream's expandable segment; memory is mapped into it in pages of 2 MiB (small) or 20 MiB (large).
struct AllocatorRange {
  std::uint64_t address = 0;
  std::int64_t size = 0, page = 0;
};

struct CachingAllocatorModel::Search {
  std::int64_t size = 0;       // of the block
  std::int64_t segment = 0;    // of the segment that would be made for it
  AllocatorBlockPool* pool = nullptr;
  std::uint64_t address = 0;   // where a recording saw that segment
  std::int64_t address_bytes = 0;
  bool expandable = false;     // may be served by an expandable segment
  AllocatorBlock* found = nullptr;
  bool exact = false;          // the block is split to the size, whatever the rules of splitting say
};

}  // namespace triage::signatures
