// To which pool of the allocator each recorded cudaMalloc belonged: the default one, or a private one of a CUDA graph or a MemPool. Until
// PyTorch 2.11 events do not say it; the dump does, of the segments that are still there. A private pool differs in what it leaves
// undone: its free blocks serve nobody else, and no release of the cache takes its segments while a graph or MemPool holds it.
#pragma once

#include <vector>

#include "parsers/snapshot/allocator.hpp"
#include "signatures/memory/alloc_conf.hpp"

namespace triage::signatures {

// Pools of the segments of a device, in the order of their segment_alloc events. A segment that is still there: as the dump states.
// One that is gone: as its event states, else by what the recording shows, else the default pool. Private pools that only their
// behaviour shows have the numbers (-1, 1), (-1, 2) ... limit: expandable segments that are gone count to the default pool.
std::vector<parsers::PoolId> segment_pools(const parsers::AllocatorSnapshot& snapshot, int device, const AllocConf& settings);

}  // namespace triage::signatures
