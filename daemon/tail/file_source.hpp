// A file or a pipe as a source of bytes, and what happened to the file while it was read.
#pragma once

#include <memory>
#include <string>

#include "daemon/tail/input.hpp"

namespace triage::daemon {

// Takes the descriptor `fd` over; owned false: it stays open at the end (stdin).
std::unique_ptr<ByteSource> make_file_source(int fd, bool owned, std::string path, ReadOptions options);

}  // namespace triage::daemon
