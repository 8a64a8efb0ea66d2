// The allocator replay of an analysed snapshot: what `triage snapshot --what-if` shows, and what the planner takes from a
// snapshot that lies beside a log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/snapshot_file.hpp"
#include "parsers/base/result.hpp"
#include "signatures/memory/what_if.hpp"
#include "signatures/verdict/allocator_what_if.hpp"

namespace triage::daemon {

struct WhatIfRequest {
  std::vector<signatures::AllocConf> settings;
  bool usual = false;                            // those that are usually tried, too
  signatures::ReplayLimits limits;
  bool asked() const { return usual || !settings.empty(); }
};

struct DeviceWhatIfs {
  int device = 0;
  signatures::WhatIfs answer;
  std::vector<std::string> asked;                // settings that were named, in that order; empty: all usual ones
  signatures::RecordedOutcome recorded;
  bool complete = true;                          // the recording began with the first allocation
  bool capacity_known = false;                   // by an out-of-memory, or as told
  std::uint64_t skipped = 0;
};

// texts: settings as in PYTORCH_CUDA_ALLOC_CONF, or "all". capacity, total: amounts of memory; empty: not told. Errors: syntax.
parsers::Result<WhatIfRequest> read_what_if(const std::vector<std::string>& texts, const std::string& capacity, const std::string& total);

// One entry for each device with events. Without settings only the check of the replay, and that only for a recording of moderate
// length: it is not worth seconds that nobody asked for.
std::vector<DeviceWhatIfs> what_ifs_of(const SnapshotAnalysis& analysis, const WhatIfRequest& request);

// The usual settings for a device that ran out of memory, as the plan takes them. Empty: it did not, or nothing was recorded.
std::vector<signatures::AllocatorWhatIf> what_ifs_for_plan(const parsers::AllocatorSnapshot& snapshot, int device);

}  // namespace triage::daemon
