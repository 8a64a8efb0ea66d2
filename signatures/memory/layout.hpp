// How a job splits the model and the batch over its ranks: parallel sizes, layers of each pipeline stage, micro batches.
#pragma once

#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/memory/shape.hpp"

namespace triage::signatures::memory {

// What one pipeline rank holds of one model chunk (virtual stage).
struct StageChunk {
  std::vector<Count> layers;  // indices of decoder layers
  bool embedding = false, loss = false;
  Count mtp_layers = 0;
};
struct Stage {
  std::vector<StageChunk> chunks;  // one without virtual pipeline
  Count layers() const;
  bool embedding() const;
  bool loss() const;
  Count mtp_layers() const;
};

struct Layout {
  Count world = 1;
  Count tensor = 1, pipeline = 1, virtual_pipeline = 1, context = 1;
  Count expert = 1, expert_tensor = 1;
  Count data = 1;           // world / (tensor x pipeline x context)
  Count expert_data = 1;    // world / (pipeline x expert x expert tensor)
  bool sequence_parallel = false;
  Count microbatch_group = 0;  // of an interleaved schedule
  // Batch of one rank
  Count seq_length = 0;     // tokens of one sample, before context parallel
  Count micro_batch = 1;
  Count microbatches = 1;   // of one optimizer step
  std::vector<Stage> stages;

  // Tokens of one micro batch on one rank, before sequence parallel: seq_length x micro_batch / context.
  double tokens() const;
  // Divider of what sequence parallel splits.
  Count sequence_split() const { return sequence_parallel && tensor > 1 ? tensor : 1; }
};

// Reads sizes from the settings (absent: 1, world from what is known) and spreads the layers over stages as Megatron does: evenly,
// first and last stage given, embedding or loss counted as a layer, or a layout string. Errors: not_found (seq_length,
// micro_batch), conflict in words ("32 heads do not divide by tensor parallel 6").
parsers::Result<Layout> make_layout(const parsers::RunConfig& config, const ModelShape& shape,
                                    Assumptions& assumptions);

// Why this layout cannot run, one sentence each; empty: it can. The planner asks before it proposes.
std::vector<std::string> layout_faults(const Layout& layout, const ModelShape& shape);

}  // namespace triage::signatures::memory
