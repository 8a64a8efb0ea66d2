// What an estimate consists of: ranges, named terms, moments of a training step. Shared by the models of all frameworks.
// Namespace memory, since verdict and plan have a Phase and a Range of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/units.hpp"

namespace triage::signatures::memory {

using parsers::Bytes;

// low <= mid <= high. All three are equal where the program's source fixes the size.
struct Range {
  Bytes low, mid, high;
  static Range exact(double bytes);
  static Range of(double low, double mid, double high);
  friend Range operator+(Range a, Range b) { return {a.low + b.low, a.mid + b.mid, a.high + b.high}; }
  Range& operator+=(Range o) { return *this = *this + o; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Something that was not stated and had to be taken for granted. key: a name of keys.def, or "" where there is none.
struct Assumption {
  std::string key;
  std::string text;  // one sentence: what was taken, and why
};
using Assumptions = std::vector<Assumption>;
// Adds it once per key and text.
void assume(Assumptions& list, std::string_view key, std::string text);

// Names of terms; they are part of the JSON answer and what a fix says it reduces.
namespace term {
inline constexpr std::string_view kWeights = "weights";
inline constexpr std::string_view kGradients = "gradients";        // kept for the whole step (main gradients, .grad)
inline constexpr std::string_view kOptimizer = "optimizer";        // master weights and moments
inline constexpr std::string_view kActivations = "activations";    // kept for the backward pass by dense parts
inline constexpr std::string_view kMoe = "moe";                    // kept for the backward pass by routers and experts
inline constexpr std::string_view kVision = "vision";              // kept for the backward pass by the vision tower
inline constexpr std::string_view kLogits = "logits";              // output layer and loss
inline constexpr std::string_view kBackward = "backward";          // gradients of activations while one block runs backward
inline constexpr std::string_view kRecompute = "recompute";        // what is rebuilt at the peak
inline constexpr std::string_view kBuffers = "buffers";            // persistent buffers: tables, masks, gathered units, inputs
inline constexpr std::string_view kWorkspace = "workspace";        // cuBLAS and kernels, inside the allocator
inline constexpr std::string_view kCommunication = "communication";// gathered and reduced copies that live during the step
inline constexpr std::string_view kOptimizerStep = "optimizer_step";  // temporaries of the update
inline constexpr std::string_view kUnexplained = "unexplained";    // measured minus modelled (calibrate.hpp)
// Outside torch.cuda.memory_allocated:
inline constexpr std::string_view kAllocator = "allocator";        // reserved but unallocated
inline constexpr std::string_view kContext = "context";            // CUDA context, kernels, libraries
inline constexpr std::string_view kNccl = "nccl";                  // communicators
}  // namespace term

// Bytes on one rank. `outside`: not part of torch.cuda.memory_allocated (allocator, context, nccl).
struct Term {
  std::string name;
  Bytes low, mid, high;
  std::string note;  // how it comes about, in a few words with the figures that were used
  bool outside = false;
};
Term make_term(std::string_view name, Range range, std::string note = {}, bool outside = false);
// Sum of the terms inside (outside = false) or outside the allocator.
Range sum_of(const std::vector<Term>& terms, bool outside = false);

enum class Phase : std::uint8_t { init, forward, loss, backward, optimizer_step, first_step };
// "init", "forward", "loss", "backward", "optimizer_step", "first_step".
std::string_view phase_name(Phase phase);

}  // namespace triage::signatures::memory
