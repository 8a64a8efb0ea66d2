// An estimate as text, MiB to the third digit: a change of any term of any phase is seen, the last bit of a floating point sum is not.
#pragma once

#include <cstdio>
#include <string>

#include "signatures/memory/estimate.hpp"

namespace triage::tests {

inline std::string prediction_text(const std::string& name, const signatures::memory::Estimate& estimate) {
  using signatures::memory::PhaseEstimate;
  using signatures::memory::StageEstimate;
  const auto mib = [](parsers::Bytes bytes) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(bytes.count()) / 1048576);
    return std::string(text);
  };
  std::string out = "== " + name + "\n";
  for (const StageEstimate& stage : estimate.stages) {
    out += "stage " + std::to_string(stage.pipeline_rank) + " rest " + mib(stage.static_bytes) + " peak " + mib(stage.peak_allocated.low) + " " +
           mib(stage.peak_allocated.mid) + " " + mib(stage.peak_allocated.high) + " parameters " + std::to_string(stage.dense_parameters) + " " +
           std::to_string(stage.expert_parameters) + "\n";
    for (const PhaseEstimate& phase : stage.phases) {
      out += "  " + std::string(signatures::memory::phase_name(phase.phase)) + " " + mib(phase.allocated.mid) + ":";
      for (const auto& term : phase.terms) out += " " + term.name + " " + mib(term.mid);
      out += "\n";
    }
  }
  return out;
}

}  // namespace triage::tests
