// Which layouts of a model fit a number of devices.
#pragma once

#include <string>
#include <vector>

#include "signatures/plan/forecast.hpp"

namespace triage::signatures {

struct LayoutChoice {
  parsers::RunConfig config;
  std::string text;                    // what differs from the run as given: "tensor_parallel 2, micro_batch 4"
  Need need;
  double cost = 0;                     // for ordering only: communication and recomputation, lower is better
};

struct Sweep {
  std::vector<LayoutChoice> choices;   // those that fit, best first
  std::size_t tried = 0;               // layouts that the memory model was asked about
  std::optional<LayoutChoice> nearest; // where none fits: the one that lacks least
};

// Tries parallel sizes that divide world and model, micro batches and recomputation. The order is a rule of thumb: little recomputation,
// model parallel within one node (gpus_per_node) only as far as needed, context parallel last, a large micro batch.
Sweep sweep_layouts(const Forecast& forecast, const parsers::RunConfig& config);

}  // namespace triage::signatures
