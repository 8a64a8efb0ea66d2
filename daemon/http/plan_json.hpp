// A memory plan to JSON: {"config", "pipeline_stages", "fixes", ...}; bytes are integers, unknown is null.
#pragma once

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/memory_plan.hpp"

namespace triage::daemon {

Json plan_json(const MemoryPlan& plan);

}  // namespace triage::daemon
