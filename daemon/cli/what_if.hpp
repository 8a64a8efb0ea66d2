// The allocator replay for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "daemon/cli/view.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_what_if.hpp"

namespace triage::daemon {

// Puts "replay_check" and "what_if" into the devices of snapshot_json()'s answer. asked: list the settings; else the check alone.
void add_what_if(Json& answer, const SnapshotAnalysis& analysis, const std::vector<DeviceWhatIfs>& devices, bool asked);

std::string what_if_text(const SnapshotAnalysis& analysis, const std::vector<DeviceWhatIfs>& devices, const TextStyle& style);

}  // namespace triage::daemon
