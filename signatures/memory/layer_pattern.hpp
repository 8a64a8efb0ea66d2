// Which layers have experts, out of Megatron's moe_layer_freq.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace triage::signatures::memory {

// "2": layers 0, 2, 4, ... (NVIDIA/Megatron-LM@d98e8a6: megatron/core/models/gpt/gpt_layer_specs.py); "[0, 1, 1]",
// "([0]*3+[1]*58)", "([1]+[0]*2)*4": as Python evaluates it. Empty if the text is another, or gives not `layers` entries.
std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::int64_t layers);

}  // namespace triage::signatures::memory
