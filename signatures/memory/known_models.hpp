// Shapes of published models, by model_type of config.json or by name, so that a log that names the model only still gives a shape.
#pragma once

#include "parsers/config/run_config.hpp"
#include "signatures/memory/term.hpp"

namespace triage::signatures::memory {

// Fills keys of the model's shape that are absent and that model_type (or the model's name) fixes. Says so in `assumptions`.
void complete_from_known_model(parsers::RunConfig& config, Assumptions& assumptions);

}  // namespace triage::signatures::memory
