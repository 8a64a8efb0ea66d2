// Analysed snapshots for people: one screen a device, a table over ranks, what changed between two.
#pragma once

#include <span>
#include <string>

#include "daemon/cli/view.hpp"
#include "daemon/pipeline/snapshot_file.hpp"

namespace triage::daemon {

std::string snapshot_text(const SnapshotAnalysis& analysis, const TextStyle& style);
// One line a device of each file, and the ranks that stand out.
std::string rank_table_text(std::span<const SnapshotAnalysis> ranks, const TextStyle& style);
std::string comparison_text(const SnapshotAnalysis& before, const SnapshotAnalysis& after, const TextStyle& style);

}  // namespace triage::daemon
