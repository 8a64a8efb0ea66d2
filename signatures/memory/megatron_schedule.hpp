// The order in which a pipeline rank runs the forward and backward passes of its chunks, and what lies between the stages meanwhile.
#pragma once

#include <vector>

#include "signatures/memory/arena.hpp"
#include "signatures/memory/megatron_chunk.hpp"

namespace triage::signatures::memory {

// Highest moments of a training step on one rank, over static memory.
struct StepTops {
  Parts forward{}, loss{}, backward{}, loss_backward{};
};
// Walks the schedule of a pipeline rank: all forward passes of the warm-up, then one forward and one backward each (1F1B), or
// Megatron's interleaved order with several chunks.
StepTops walk_schedule(const MegatronSetup& run, Count pipeline_rank, const std::vector<ChunkCost>& chunks);

// Bytes at rest: each chunk that receives its input remembers the last one, and that one's gradient with it (set_input_tensor,
// retain_grad).
double remembered_inputs(const MegatronSetup& run, const Stage& stage);

}  // namespace triage::signatures::memory
