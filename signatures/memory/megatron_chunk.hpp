// One model chunk of a pipeline rank (embedding, layers, loss) walked through for one micro batch.
#pragma once

#include <vector>

#include "signatures/memory/arena.hpp"
#include "signatures/memory/megatron_layer.hpp"
#include "signatures/memory/term.hpp"

namespace triage::signatures::memory {

// What one micro batch does to the memory, over what was live before it.
struct ChunkCost {
  Parts kept{};           // from the end of its forward pass to its backward pass
  Parts forward_top{};    // highest moment of the forward pass without the loss
  Parts loss_top{};       // of output layer and loss, forward; zero without a loss
  Parts backward_top{};   // of the backward pass, over what was live before the forward pass
  Parts loss_backward_top{};
  bool receives = false, sends = false;  // its input comes from another stage; its output goes to one
};
ChunkCost chunk_cost(const MegatronSetup& run, const StageChunk& chunk, Imbalance imbalance);

}  // namespace triage::signatures::memory
