#include "signatures/memory/frameworks.hpp"

namespace triage::signatures::memory {

// limit: not modelled yet.
parsers::Result<Estimate> estimate_torch(const parsers::RunConfig&) {
  return parsers::Error(parsers::ErrorCode::unsupported,
                        "there is no memory model of this program yet");
}

}  // namespace triage::signatures::memory
