// States of an optimizer and what its update allocates for a moment. Called by torch_step.
#pragma once

#include <deque>

#include "signatures/memory/tape.hpp"
#include "signatures/memory/torch_run.hpp"

namespace triage::signatures::memory {

struct OptimizerBytes {
  Count states = 0;     // on the device, kept
  Count temporary = 0;  // beside weights, gradients and states at the highest moment of the update
};

// `split`: ranks that share the states; 1 without sharding. embedding: the largest tables, see OptimizerSetup::wide_embeddings.
OptimizerBytes optimizer_bytes(const OptimizerSetup& setup, const std::deque<tape::Parameter>& parameters,
                               const tape::Parameter* embedding, Count split);

}  // namespace triage::signatures::memory
