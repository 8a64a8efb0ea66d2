// Secrets of the configuration: they stand in it as env:NAME, file:PATH or as they are. The only reader of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::daemon {

// Where env: and file: come from; tests give their own.
using SecretLookup = std::function<parsers::Result<std::string>(std::string_view kind, const std::string& name)>;
// kind: "env" or "file". Errors: not_found, io, limit (a file over 64 KiB).
parsers::Result<std::string> system_secret(std::string_view kind, const std::string& name);

// What a reference stands for, without blanks and line ends around it. Errors: those of the lookup; syntax (empty at its source, or not one
// line). No message repeats the secret.
parsers::Result<std::string> secret_of(std::string_view reference, const SecretLookup& lookup = system_secret);

}  // namespace triage::daemon
