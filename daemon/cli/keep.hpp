// Keeping an answer in a database.
#pragma once

#include <string>

#include "daemon/pipeline/triage.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon {

// All incidents and sources of the answer in one transaction. Scanning the same bytes again changes nothing.
parsers::Status keep_answer(const std::string& database, const Answer& answer, const std::string& rules_hash, parsers::TimePoint now);

}  // namespace triage::daemon
