// What a Megatron rank holds from the first step on: weights, main gradients, optimizer states, persistent buffers.
#pragma once

#include <vector>

#include "signatures/memory/megatron_setup.hpp"
#include "signatures/memory/term.hpp"

namespace triage::signatures::memory {

struct RankParameters {
  double dense = 0;    // embeddings, attention, MLP, norms, routers, vision tower
  double expert = 0;   // routed experts
  double outside = 0;  // of `dense`: embedding, output layer, final norm: no unit of FSDP
  std::vector<double> outside_order;  // the same, one by one, in the order of the model
  double largest_unit = 0;  // of FSDP: the largest layer, experts included
  double frozen = 0;   // of `dense`: no gradients, no states
  double linear = 0;   // of dense + expert: weights of linear layers (fp8)
  std::vector<double> order;  // sizes of dense parameters in the order of the gradient buffer: the last of the model first
};
RankParameters rank_parameters(const MegatronSetup& run, const Stage& stage);

struct StaticMemory {
  double weights = 0, gradients = 0, optimizer = 0;
  double moments = 0;        // of `optimizer`: not there before the first step ends
  double gradient_copy = 0;  // fp32, from the optimizer's step to the next step's start
  double step_temporary = 0; // of torch's own Adam
  double initial = 0;        // highest moment while the buffers are made
  double moments_low = 0, moments_high = 0;  // whole parameters are offloaded: over all data ranks
  double gathered = 0;       // of FSDP: parameters outside units, at rest
  double prefetched = 0;     // of FSDP: units gathered for the next step already
  double unit = 0;           // of FSDP: gathered units during forward and backward
  double unit_loss = 0;      // of FSDP: gathered units in the loss of the first step
  double unit_gradients = 0; // of FSDP: whole gradients of one unit and of what stands outside units, during backward
  double waiting_unit = 0, waiting_units = 0;  // gradients of finished units that may wait for their reduction: bytes of one, how many
};
StaticMemory static_memory(const MegatronSetup& run, const RankParameters& parameters);

// What stays after a step because the last routing was rebuilt in a checkpoint: its graph holds the checkpoint's input and its gradient.
// The next forward pass lets go of it.
double rebuilt_routing(const MegatronSetup& run, const Stage& stage);

// Persistent buffers beside the states: score buffer of unfused attention and gather buffer of sequence parallel (one, the larger),
// rotary tables, dispatchers' memory, dummy weight gradients.
std::vector<Term> persistent_buffers(const MegatronSetup& run, const Stage& stage);

}  // namespace triage::signatures::memory
