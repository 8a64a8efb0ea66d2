// In which phase of a step the root was raised: by its text, its frames, a stack beside it.
#pragma once

#include "signatures/verdict/root/case.hpp"

namespace triage::signatures {

// Sets d.phase where something tells it, d.root.frames where another print of the fault has them, and says of a guess why.
void find_phase(const Case& c, Diagnosis& d);

}  // namespace triage::signatures
