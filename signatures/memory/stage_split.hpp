// Which decoder layers, embedding, loss and multi-token prediction layers each pipeline rank holds, as Megatron Core spreads them.
// Source: NVIDIA/Megatron-LM@d98e8a6: megatron/core/transformer/{transformer_block,transformer_layer,
// pipeline_parallel_layer_layout}.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "signatures/memory/layout.hpp"

namespace triage::signatures::memory {

struct SplitRules {
  Count layers = 0, mtp_layers = 0;
  Count pipeline = 1, virtual_pipeline = 1;
  std::optional<Count> first_stage, last_stage;  // layers given for them
  bool count_embedding = false, count_loss = false;  // each counts as one layer
};

// Even, or uneven at the ends. Error: conflict, in words, when the layers do not divide.
parsers::Result<std::vector<Stage>> split_layers(const SplitRules& rules);

// "Ettt|(tt|)*29,m|L": E embedding, t layer, m multi-token prediction, L loss, | next stage, (...)*n and x*n repeat; stage j of
// chunk i stands at i x pipeline + j. Errors: syntax, conflict (stages not a multiple of `pipeline`, not `layers` layers).
parsers::Result<std::vector<Stage>> read_stage_layout(std::string_view text, Count pipeline,
                                                      Count layers);

}  // namespace triage::signatures::memory
