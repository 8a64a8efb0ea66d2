// The allocator replay for people.
#pragma once

#include <string>
#include <vector>

#include "daemon/cli/view.hpp"
#include "daemon/pipeline/snapshot_what_if.hpp"

namespace triage::daemon {

std::string what_if_text(const SnapshotAnalysis& analysis, const std::vector<DeviceWhatIfs>& devices, const TextStyle& style);

}  // namespace triage::daemon
