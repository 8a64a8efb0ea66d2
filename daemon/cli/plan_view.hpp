// A memory plan for people: one bar a pipeline stage, what fills the highest one, what each change gives.
#pragma once

#include <string>

#include "daemon/cli/view.hpp"
#include "daemon/http/plan_json.hpp"

namespace triage::daemon {

std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

}  // namespace triage::daemon
