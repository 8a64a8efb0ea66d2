// Memory of the cards that people train on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/units.hpp"

namespace triage::signatures {

// What torch.cuda reports as a card's total memory, by the name people give it (h200, h100, a100-40g, b200, gb200, mi300x, ...); case,
// spaces and dashes do not count. Drivers and ECC move it by some hundred MiB: a capacity that a log states is surer.
std::optional<parsers::Bytes> card_capacity(std::string_view name);
// The names, comma separated: for an error's help.
std::string card_names();

}  // namespace triage::signatures
