// Which allocator settings would have helped this run, and which that are often advised would have harmed it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "signatures/memory/allocator_replay.hpp"

namespace triage::signatures {

enum class WhatIfEffect : std::uint8_t {
  as_recorded,   // the settings of the run
  rescues,       // the run was out of memory; so it would not have been, as far as the recording goes
  fails_later,   // out of memory, but at a later request
  lower,         // less reserved at the peak (by more than 1 %)
  same,
  higher,        // more reserved (by more than 1 %), or more retries
  fails_too,     // out of memory at the same request
  fails          // out of memory where the run was not, or earlier
};
std::string_view effect_name(WhatIfEffect effect);
// Does it do harm: is it to be advised against?
bool makes_worse(WhatIfEffect effect);

struct WhatIf {
  std::string settings;                // as settings_text() gives it
  ReplayResult result;
  WhatIfEffect effect = WhatIfEffect::same;
  parsers::Bytes reserved_change;      // of the peak, against the replay of the recorded settings; negative: less
  std::string note;                    // one sentence with the figures
};

// Replays under each of the settings. Best first: rescues, lower, same, ..., fails. The recorded settings stand among them once.
struct WhatIfs {
  ReplayCheck check;                   // of the recorded settings against the recording
  std::vector<WhatIf> ranked;
};
WhatIfs what_if(const ReplayTrace& trace, std::span<const AllocConf> settings, const ReplayLimits& limits = {});

// What is usually tried: growing segments, bounds of splitting, garbage collection, rounding; each on top of the memory limit of
// the run. Garbage collection works under a memory limit only: where the run had none, the device's capacity is taken as one.
std::vector<AllocConf> usual_settings(const ReplayTrace& trace, const ReplayLimits& limits = {});

}  // namespace triage::signatures
