// Memory of a training rank from its configuration. One answer a pipeline stage; the peak is the highest moment of the step, not a
// sum over moments. Called by plan and by `triage plan`; calibrate.hpp anchors the answer at what a run measured.
#pragma once

#include <string>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/memory/layout.hpp"
#include "signatures/memory/shape.hpp"
#include "signatures/memory/term.hpp"

namespace triage::signatures::memory {

// The highest moment within one phase: what is allocated then. Sum of the terms = allocated.
struct PhaseEstimate {
  Phase phase = Phase::forward;
  Range allocated;
  std::vector<Term> terms;
};

struct StageEstimate {
  Count pipeline_rank = 0;
  std::vector<Count> layers;         // decoder layers that it holds
  Count dense_parameters = 0;        // of the rank, experts not counted
  Count expert_parameters = 0;
  Bytes static_bytes;                // torch.cuda.memory_allocated between two steps, gradients and optimizer states included
                                     // where the program keeps them
  std::vector<PhaseEstimate> phases; // in the order of a step
  Phase peak_phase = Phase::backward;
  Range peak_allocated;              // torch.cuda.max_memory_allocated
  Range peak_device;                 // with allocator, context and communicators: what nvidia-smi shows
  std::vector<Term> terms;           // of the peak phase, and those outside the allocator
};

struct Estimate {
  std::string model;                 // which model computed it: "megatron", "huggingface", "deepspeed", ...
  ModelShape shape;
  Layout layout;
  std::vector<StageEstimate> stages; // at least one
  Assumptions assumptions;
  // The stage with the highest peak (mid).
  const StageEstimate& highest() const;
};

// By framework of the configuration. Errors: not_found (what is missing, by key), conflict (what cannot be), unsupported.
parsers::Result<Estimate> estimate(const parsers::RunConfig& config);

// Sets peak phase, peak and terms of a stage from its phases and the terms outside the allocator.
void close_stage(StageEstimate& stage, const std::vector<Term>& outside);

}  // namespace triage::signatures::memory
