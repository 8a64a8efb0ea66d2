// Values that Megatron-LM's own command line would refuse.
#pragma once

#include "parsers/base/result.hpp"
#include "parsers/config/flat_setting.hpp"

namespace triage::parsers {

// `options` as options_of gives them. Error: conflict, naming the first option whose value is of the wrong type, out of range or none of its
// choices, and what it takes. Options that are not known here pass.
Status check_megatron_values(const FlatSettings& options);

}  // namespace triage::parsers
