// What an allocator setting would have done for the run that failed, as the replay of its recording says: plain values that
// travel from the snapshot beside a log to the plan.
#pragma once

#include <string>

#include "parsers/base/units.hpp"

namespace triage::signatures {

struct AllocatorWhatIf {
  std::string settings;                // PYTORCH_CUDA_ALLOC_CONF
  bool rescues = false;                // the failed request would have had room
  bool worse = false;                  // out of memory earlier, or more reserved
  parsers::Bytes saving;               // of what was reserved and asked for at the failure; with `rescues` only
  parsers::Bytes room_left;            // of what PyTorch could reserve, at the peak; with `rescues` only
  std::string note;                    // one sentence with the figures
};

}  // namespace triage::signatures
