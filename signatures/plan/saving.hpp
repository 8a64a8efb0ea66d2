// What a fix saves as far as the ledger of the failure itself shows it, without a model of the run's memory.
#pragma once

#include "signatures/plan/catalogue.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Fills saving, predicted_peak, fits and basis where they follow from measured bytes; else leaves them empty and adds to `why`
// which figures of the configuration are needed to compute the saving.
void add_saving(Fix& fix, const CatalogueFix& entry, const Diagnosis& diagnosis);

}  // namespace triage::signatures
