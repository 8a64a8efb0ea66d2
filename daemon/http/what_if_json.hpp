// The allocator replay to JSON.
#pragma once

#include <vector>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_what_if.hpp"

namespace triage::daemon {

// Puts "replay_check" and "what_if" into the devices of snapshot_json()'s answer. asked: list the settings; else the check alone.
void add_what_if(Json& answer, const SnapshotAnalysis& analysis, const std::vector<DeviceWhatIfs>& devices, bool asked);

}  // namespace triage::daemon
