// What changed between the run that failed and the attempt that came through: which fixes of the plan were applied.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "db/live_rows.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/plan/catalogue.hpp"

namespace triage::daemon {

// answer: the stored incident. Only `fixes` and `settings` are filled in. A fix of the plan counts as applied when every setting that it
// changes is another one now. Empty: nothing changed that both runs state.
std::optional<db::NextRun> compare_runs(std::string_view answer, const parsers::RunConfig& later, const std::vector<signatures::CatalogueFix>& catalogue);

}  // namespace triage::daemon
