#include "signatures/memory/frameworks.hpp"

namespace triage::signatures::memory {

parsers::Result<Estimate> estimate_megatron(const parsers::RunConfig&) {
  return parsers::Error(parsers::ErrorCode::unsupported, "no memory model of Megatron yet");
}

}  // namespace triage::signatures::memory
