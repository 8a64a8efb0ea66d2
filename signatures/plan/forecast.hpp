// What a changed configuration would need, foretold by the memory model (signatures/memory) and anchored at what the run measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parsers/config/run_config.hpp"
#include "signatures/memory/calibrate.hpp"
#include "signatures/memory/estimate.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Need of one configuration. Bytes, all of the stage that needs most.
struct Need {
  Range peak;                          // torch.cuda.max_memory_allocated
  bool fits = false;                   // the middle with `room_bytes` to spare, and outside, is within the limit
  bool fits_surely = false;            // so is the upper end
  parsers::Bytes short_by;             // of the middle; 0 when it fits
  parsers::Bytes spare;                // left of the limit beyond that; 0 when it does not fit
};

class Forecast {
 public:
  // The run as it was. capacity: what the process may use of the device (card, or its own limit). outside: what stands on the card
  // beside the allocator (context, libraries, other processes); absent: the model's own figure. Errors: of memory::estimate, which
  // names the settings that are missing.
  static parsers::Result<Forecast> make(const parsers::RunConfig& config, std::vector<memory::Observation> observations, std::optional<parsers::Bytes> capacity,
                                        std::optional<parsers::Bytes> outside);

  // A changed configuration. Errors: conflict (it cannot run: sizes that do not divide), unsupported (the model does not know it).
  parsers::Result<Need> need(const parsers::RunConfig& changed) const;

  const Need& now() const { return now_; }
  bool has_limit() const { return capacity_.has_value(); }
  const memory::Estimate& estimate() const { return calibrated_; }
  const memory::Estimate& uncalibrated() const { return base_; }
  const memory::Calibration& calibration() const { return calibration_; }
  // The configuration with what the failure itself showed beyond it (origins that begin with "inferred").
  const parsers::RunConfig& config() const { return config_; }
  parsers::Bytes capacity() const { return capacity_.value_or(parsers::Bytes()); }
  void assume(std::string text) { calibrated_.assumptions.insert(calibrated_.assumptions.begin(), {"", std::move(text)}); }

 private:
  Need need_of(const memory::Estimate& estimate) const;

  memory::Estimate base_, calibrated_;
  memory::Calibration calibration_;
  parsers::RunConfig config_;
  std::optional<parsers::Bytes> capacity_, outside_;
  Need now_;
};

// Saving, predicted peak and whether it fits, of a fix.
void put_need(Fix& fix, const Need& need, const Forecast& forecast);

// What fills the device by the model, largest first; empty where the configuration is not known well enough.
std::vector<CompositionTerm> modelled_composition(const Forecast& forecast);

// The forecast of an out-of-memory diagnosis with its ledger's limit; an error where the configuration is not known well enough.
parsers::Result<Forecast> forecast_of(const Diagnosis& diagnosis, const parsers::RunConfig& config);

}  // namespace triage::signatures
