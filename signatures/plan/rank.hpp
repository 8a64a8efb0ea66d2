// Picks and orders the fixes of one diagnosis out of the catalogue.
#pragma once

#include <memory>
#include <vector>

#include "signatures/plan/catalogue.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

struct PlanLimits {
  std::size_t fixes = 6;
  std::size_t of_family = 2;           // while others are worth showing
};

// Fixes of one diagnosis, best first. `forecast`: of this diagnosis, where the caller has it already (forecast_of). Never one that is already on, whose precondition is false, or that has no form for the
// programs of this run. Unknown preconditions become `assumes`. Empty for the kind "none".
Plan plan_fixes(const Diagnosis& diagnosis, const std::vector<CatalogueFix>& catalogue, PlanLimits limits = {},
                std::shared_ptr<const Forecast> forecast = nullptr);

}  // namespace triage::signatures
