// Values to JSON: the one form of the answer, for --format json, the store, the API and the webhook. Unknown is null; bytes are integers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/pipeline/triage.hpp"

namespace triage::daemon {

using Json = nlohmann::ordered_json;

Json config_json(const parsers::RunConfig& config);
Json fix_json(const signatures::Fix& fix, int position);
Json incident_json(const JudgedIncident& incident);
// rules_hash: of the rule set that judged.
Json answer_json(const Answer& answer, const std::string& rules_hash);
// RFC 3339, UTC, a fraction only where there is one: "2026-12-01T13:19:02Z".
std::string time_text(parsers::TimePoint time);
// Text of a document; bytes that are no UTF-8 become U+FFFD. indent -1: one line.
std::string json_text(const Json& json, int indent);

}  // namespace triage::daemon
