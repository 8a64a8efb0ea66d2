// The file `environment` beside the configuration. systemd gives it to the service (EnvironmentFile=); who checks the configuration or tries a
// sink by hand has no such environment, so what is named env: is looked for in the file, too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/config/secret.hpp"

namespace triage::daemon {

// What the text of such a file sets the variable to; the last assignment counts, as in systemd.exec(5), EnvironmentFile=. One variable a line, in
// quotes or not; lines that begin with # or ; say nothing. limit: no escapes, and no value of several lines.
std::optional<std::string> environment_value(std::string_view text, std::string_view name);

// system_secret, and for a variable that the process does not have the file `environment` in this folder. Errors: those of system_secret, with
// the file where it does not help.
SecretLookup secrets_beside(const std::filesystem::path& folder);

}  // namespace triage::daemon
