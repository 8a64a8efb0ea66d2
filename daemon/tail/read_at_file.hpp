// A regular file read by position, for dumps that are larger than memory.
#pragma once

#include <memory>
#include <string>

#include "parsers/base/result.hpp"
#include "parsers/snapshot/read_at.hpp"

namespace triage::daemon {

// Errors: io, not_found.
parsers::Result<std::unique_ptr<parsers::ReadAt>> open_read_at(const std::string& path);

}  // namespace triage::daemon
