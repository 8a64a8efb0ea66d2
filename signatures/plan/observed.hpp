// What a failed run's own figures say to the memory model: observations, and settings that the log does not state but the failure shows
// (attention kernel, image patches, routing of experts).
#pragma once

#include <optional>
#include <vector>

#include "parsers/config/run_config.hpp"
#include "signatures/memory/calibrate.hpp"
#include "signatures/memory/estimate.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// The failed request, and the program's own reports.
std::vector<memory::Observation> observations_of(const Diagnosis& diagnosis);

// The failed request was not the last of the loss: what the same loss asks for after it, in bytes at once. Known for
// torch.nn.functional.cross_entropy on whole logits (transformers, own loops); 0 elsewhere. to_backward: up to the highest moment of the
// backward pass of the loss, else up to that of the forward pass.
parsers::Bytes rest_of_loss(const Diagnosis& diagnosis, bool to_backward);

// The configuration with what the traceback shows beyond it: the attention kernel. Origins begin with "inferred".
parsers::RunConfig completed_config(const Diagnosis& diagnosis, parsers::RunConfig config);

// An amount that the model leaves open (patches of images, rows of a rank's experts), set so that the model meets what was allocated when
// the run failed. Empty: nothing is open, or the failure does not show more than the model has.
struct Settled {
  parsers::RunConfig config;
  bool with_gradients = false;         // the gradients of an earlier micro batch of the step were there already
  std::string text;                    // one sentence, for the assumptions
};
std::optional<Settled> settle_open_amount(const parsers::RunConfig& config, const memory::Estimate& estimate,
                                          const std::vector<memory::Observation>& observations, std::optional<double> worst_layer = std::nullopt);

// A failure in the first step's forward pass or loss, of a run that accumulates: in the first micro batch there are no gradients yet, in a
// later one there are. True where the figures are those of a later one.
bool had_gradients(const parsers::RunConfig& config, const memory::Estimate& estimate, const memory::Observation& failed);

// Rows that this rank's experts received in the layer that failed, over the mean: from the size of the failed request, where the traceback
// says that it was a tensor of these rows. Megatron only.
std::optional<double> routed_to_this_rank(const Diagnosis& diagnosis, const parsers::RunConfig& config, const memory::Estimate& estimate);

}  // namespace triage::signatures
