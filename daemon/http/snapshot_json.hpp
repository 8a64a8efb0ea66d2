// An analysed snapshot to JSON: {"devices": [...]} of docs/architecture.md. Bytes are integers, unknown is null.
#pragma once

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/snapshot_file.hpp"

namespace triage::daemon {

Json snapshot_json(const SnapshotAnalysis& analysis);
// Two snapshots: each difference is after minus before.
Json comparison_json(const SnapshotAnalysis& before, const SnapshotAnalysis& after);

}  // namespace triage::daemon
