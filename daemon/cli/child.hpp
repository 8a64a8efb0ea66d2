// A child process whose output passes through us: bytes and exit status unchanged, signals forwarded.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::daemon {

struct ChildEnd {
  int exit_code = 0;        // 0..255 when it exited
  int signal = 0;           // when a signal ended it
  pid_t pid = 0;
  // What a shell would report: the exit code, or 128 + signal.
  int shell_status() const { return signal > 0 ? 128 + signal : exit_code; }
};

// Starts the command (found along PATH) and stays until it has ended and its output is drained. output: called with what was passed
// on, and whether it came from stderr. Errors: not_found, io (with errno's text) when it cannot be started.
parsers::Result<ChildEnd> run_child(const std::vector<std::string>& command, const std::function<void(std::string_view, bool)>& output);

}  // namespace triage::daemon
