// What a fix saves as far as the ledger of the failure itself shows it, without a model of the run's memory.
#pragma once

#include "signatures/plan/catalogue.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/plan/forecast.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Fills saving, predicted_peak, fits and basis where they follow from measured bytes; else leaves them empty and adds to `why`
// which figures of the configuration are needed to compute the saving.
void add_saving(Fix& fix, const CatalogueFix& entry, const Diagnosis& diagnosis, const Forecast* forecast);

// What the device would have to hold if its memory were in one piece: what was allocated, the failed request, what its loss asks for after
// it, at least the modelled peak, and what stands outside the allocator. 0: the ledger does not say.
parsers::Bytes needed_without_pieces(const Diagnosis& diagnosis, const Forecast* forecast);

}  // namespace triage::signatures
