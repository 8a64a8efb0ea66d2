// A memory plan to JSON: {"config", "pipeline_stages", "fixes", ...}; bytes are integers, unknown is null.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/json_view.hpp"
#include "signatures/plan/forecast.hpp"
#include "signatures/plan/sweep.hpp"

namespace triage::daemon {

// What `triage plan` answers.
struct MemoryPlan {
  parsers::RunConfig config;
  std::vector<std::string> ignored;                 // settings that the configuration files state and no key stands for
  std::optional<parsers::Bytes> capacity;
  std::shared_ptr<const signatures::Forecast> forecast;   // never empty
  signatures::Plan plan;
  std::optional<signatures::Sweep> sweep;
  std::optional<long> pipeline_rank;                // show this stage only
};

Json plan_json(const MemoryPlan& plan);

}  // namespace triage::daemon
