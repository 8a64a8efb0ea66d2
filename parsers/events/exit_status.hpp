// How exit codes and signals are spelled; used by the parsers of process ends in this folder only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "parsers/events/event.hpp"

namespace triage::parsers {

// The signal that a shell's or launcher's word at the start of the text means: "Killed", "Segmentation fault", "SIGKILL".
std::optional<int> signal_of_word(std::string_view text);

// Enters a status as launchers print it: -9 is signal 9; 137 is exit code 137, that is signal 9 of a child. False: no status (over 255).
bool enter_status(ProcessExit& exit, std::int64_t status);

// Schedulers, container runtimes, shells, systemd, kernels' words; the launchers are in process_exit.cpp.
bool read_slurm_exit(std::string_view message, ProcessExit& exit);
bool read_container_exit(std::string_view message, ProcessExit& exit);
bool read_shell_exit(std::string_view message, ProcessExit& exit);

}  // namespace triage::parsers
