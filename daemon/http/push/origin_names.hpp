// Names of attributes and record members that say where a log line comes from. Other members (levels, ids, offsets, numbers of a request) would
// make a stream of every line, so they make no labels.
#pragma once

#include <string_view>

namespace triage::daemon::api {

// Of a record of Vector, Fluent Bit, journald, Docker or an OpenTelemetry collector; members in one another are joined by dots.
bool says_origin(std::string_view name);

}  // namespace triage::daemon::api
