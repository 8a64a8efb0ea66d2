// The service's own log: lines on standard error, for the journal. Thread-safe.
#pragma once

#include <string>

namespace triage::daemon {

enum class LogLevel { debug, info, warn, error };

// level: debug, info, warn or error.
void set_log_level(const std::string& level);
// text: shown on one line, control characters as '?'.
void log_line(LogLevel level, const std::string& text);

}  // namespace triage::daemon
