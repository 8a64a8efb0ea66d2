// One training step of a PyTorch model on a tape: weights, forward pass, loss, backward pass, update. Called by estimate_torch.
#pragma once

#include "signatures/memory/tape.hpp"
#include "signatures/memory/torch_run.hpp"

namespace triage::signatures::memory {

struct StepResult {
  tape::Meter meter;            // peaks of the phases of a step after the first
  Count rest = 0;               // live between two steps
  tape::Meter::ByTag at_rest{};
  Count after_forward = 0;      // live when the forward pass has returned
  bool states_from_start = false;  // made with the optimizer, not in the first step
  Count optimizer_bytes = 0;    // states: absent until the first update has begun
  Count parameters = 0, trainable = 0, expert_parameters = 0;  // of this rank, before data-parallel sharding
};

// Never fails: the run has been checked by torch_run.
StepResult torch_step(const TorchRun& run);

}  // namespace triage::signatures::memory
