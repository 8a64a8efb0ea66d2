// Lines of a file around a place, for the log view of an incident.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/http/service_view.hpp"
#include "db/live_rows.hpp"
#include "parsers/snapshot/read_at.hpp"

namespace triage::daemon {

// near: a line at or before the wanted one and its offset, where one is known; else lines are counted from the start of the file.
// Errors: those of reading.
parsers::Result<api::Context> read_context(parsers::ReadAt& file, const std::string& path, const api::ContextQuery& query,
                                           std::optional<std::pair<std::uint64_t, std::uint64_t>> near);

// The same out of the lines that were kept, when the file is gone. spool: in order.
api::Context context_of_spool(const std::string& source, const api::ContextQuery& query, const std::vector<db::SpoolLine>& spool);

}  // namespace triage::daemon
