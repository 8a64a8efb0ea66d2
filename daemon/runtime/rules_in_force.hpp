// RulesInForce: the set of rules and its place in the row of sets that this process has used, so that who holds something made with an older
// one knows it.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/pipeline/knowledge.hpp"

namespace triage::daemon {

struct RulesInForce {
  std::shared_ptr<const Knowledge> knowledge;
  std::uint64_t version = 0;
};

}  // namespace triage::daemon
