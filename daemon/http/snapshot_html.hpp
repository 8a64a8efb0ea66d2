// An analysed snapshot as one self-contained page: memory over time with zoom, flame graph of what lived at the moment that matters, map of
// the segments. No network; the texts of the file reach the page as data only.
#pragma once

#include <string>

#include "daemon/pipeline/snapshot_file.hpp"

namespace triage::daemon {

// The analysis needs a timeline (SummaryOptions::timeline_points).
std::string snapshot_html(const SnapshotAnalysis& analysis);

}  // namespace triage::daemon
