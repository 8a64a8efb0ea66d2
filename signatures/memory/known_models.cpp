#include "signatures/memory/known_models.hpp"

namespace triage::signatures::memory {

void complete_from_known_model(parsers::RunConfig&, Assumptions&) {}

}  // namespace triage::signatures::memory
