// The lines around what was found in an upload, for the log view of its incidents: the file itself is removed once it was read.
#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/triage.hpp"
#include "db/rows.hpp"

namespace triage::daemon {

// Reads the file at `path` (a log, packed or not, or an archive) once more. shown: the name under which the incidents know it; members of an archive
// are "shown!member". Returns one list an incident, in their order; a file or member that cannot be read gives nothing.
// limit: 24 places and 2 MiB an incident, 50 incidents; beyond them lines are left out.
std::vector<std::vector<db::Excerpt>> lines_around(const std::vector<JudgedIncident>& incidents, const std::string& path, const std::string& shown);

}  // namespace triage::daemon
