// Prefixes by which launchers and container tools say whose line it is: torchrun, srun -l, mpirun, pdsh, Ray, vLLM, kubectl,
// stern, docker-compose.
#pragma once

#include <string_view>

#include "parsers/records/record.hpp"

namespace triage::parsers {

// Takes one prefix off the front of `text` and notes in `record` what it says. False, and nothing changed, where none stands.
bool peel_launcher(std::string_view& text, Record& record);

}  // namespace triage::parsers
