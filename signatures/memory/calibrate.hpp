// Anchors an estimate at what the run itself measured. The difference stands as a term of its own ("unexplained"), never hidden.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "signatures/memory/estimate.hpp"

namespace triage::signatures::memory {

struct Observation {
  enum class Kind {
    allocated_at_rest,  // torch.cuda.memory_allocated between steps (Megatron's "allocated")
    peak_allocated,     // torch.cuda.max_memory_allocated of a whole step
    peak_reserved,      // torch.cuda.max_memory_reserved
    failed_allocation,  // allocated + request of an out-of-memory error: the peak is at least this
    term,               // one category of a snapshot
  };
  Kind kind = Kind::peak_allocated;
  Bytes bytes;
  std::optional<Count> pipeline_rank;  // absent: not known, taken for the stage whose estimate is nearest
  std::optional<Phase> phase;          // where the failure stood
  std::string term;                    // name, for Kind::term
  std::string origin;                  // "Rank 0 after 2 iterations", "out-of-memory error": shown to the user
  bool before_states = false;          // taken in the first step: the optimizer has no moments yet
  bool before_gradients = false;       // taken in the first forward pass of a step, by a program that makes gradients when they come
};

// What the model misses on this run. Added to the estimate of any changed configuration of the same run.
struct Calibration {
  std::optional<Bytes> rest;   // measured minus modelled between steps
  std::optional<Bytes> peak;   // measured minus modelled peak; its part beyond `rest` belongs to activations
  bool at_least = false;       // the peak comes from a failed allocation: only a lower bound
  std::optional<Phase> phase;  // the phase the peak was taken in
  std::vector<std::string> notes;  // one sentence an observation: used how, or why not
};

// What the model says of the moment that was observed, in the stage that was observed (else in the one that comes nearest).
Bytes modelled(const Observation& seen, const Estimate& estimate);

// Compares. Never fails: observations that do not fit (further than half of themselves from the model) are told in notes and not used.
Calibration calibrate(const Estimate& estimate, std::span<const Observation> observations);

// The estimate with the unexplained part added to every stage: `rest` to all phases, the remainder of `peak` in proportion to the
// activations (activation parts of changed / of original configuration), so that a change that removes activations removes its share.
Estimate apply(const Calibration& calibration, const Estimate& original, Estimate changed);

}  // namespace triage::signatures::memory
