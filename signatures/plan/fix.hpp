// Fix: one change that helps, as proposed for one incident; and the catalogue entry it came from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parsers/base/place.hpp"
#include "parsers/base/units.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

struct FixSetting {
  std::string framework;               // megatron-lm, megatron-bridge, huggingface, ... or any
  std::string set;                     // the exact flag or key with its value
};

struct Range {
  parsers::Bytes low, mid, high;
};

struct FixCost {
  std::optional<double> step_time_low_percent, step_time_high_percent;   // negative: faster
  std::string note;                    // communication, numerics, disruption in words
};

// One proposed change, or a combination (then `parts` has the ids).
struct Fix {
  std::string id;                      // recompute.full
  int rank = 0;                        // 1 is first
  std::string title;
  std::vector<FixSetting> apply;       // the frameworks of this run first; exact values filled in
  std::vector<std::string> parts;
  std::optional<Range> saving;         // empty: the configuration is not known well enough; `why` says so
  std::optional<parsers::Bytes> predicted_peak;
  std::optional<bool> fits;            // predicted_peak (high) against the limit
  FixCost cost;
  Basis basis = Basis::rule;
  std::string why;                     // one sentence, for this incident
  std::vector<std::string> assumes, sources;
};

class Forecast;   // signatures/plan/forecast.hpp

// The plan of an incident.
struct Plan {
  std::vector<Fix> fixes;              // ranked
  std::string verdict;                 // "nothing reaches it: short by 3.2 GiB", or empty
  std::shared_ptr<const Forecast> forecast;   // of a device memory failure whose configuration is known; else none
};

}  // namespace triage::signatures
