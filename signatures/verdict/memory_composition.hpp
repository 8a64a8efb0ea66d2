// What the live blocks of a snapshot are: weights, gradients, optimizer states, activations, ... judged by the call stack that asked for each,
// by its pool, and for blocks without a stack (the autograd thread has no Python frames) by its size beside the weights. What no rule knows
// stays unattributed. Used by `triage snapshot` and by the join of a snapshot with a log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/snapshot/summary.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

enum class MemoryCategory : std::uint8_t {
  weights, gradients, optimizer, activations, logits, buffers, cuda_graphs, temporary, unattributed
};
inline constexpr std::size_t kMemoryCategories = 9;
// "weights", "gradients", ...: the terms of Diagnosis::composition. buffers: communication.
std::string_view category_name(MemoryCategory category);

struct StackJudgement {
  MemoryCategory category = MemoryCategory::unattributed;
  bool sure = false;                 // the stack says so; false: it is the likely reading
};

// Judges stacks of one snapshot; each once.
class StackJudge {
 public:
  explicit StackJudge(const parsers::StackTable& stacks);
  StackJudgement judge(parsers::StackId stack);

 private:
  StackJudgement judge_new(parsers::StackId stack);
  std::uint32_t signs_of(parsers::FrameId frame);

  const parsers::StackTable& stacks_;
  std::vector<std::uint32_t> signs_;             // of each frame, 0: not looked at
  std::vector<std::uint8_t> judged_;             // of each stack: 0 not yet, else category + 1, top bit: sure
  int last_buffer_line_ = 0;                     // of Megatron's param_and_grad_buffer: the gradient's buffer is made last
};

// The frames that tell a person where: the innermost outside PyTorch, the next ones of other functions, the outermost of the user's own script;
// innermost first. At most `limit`. Empty where no frames were recorded.
std::vector<parsers::FrameId> telling_frames(const parsers::StackTable& stacks, parsers::StackId stack, std::size_t limit);

struct CategoryBytes {
  MemoryCategory category = MemoryCategory::unattributed;
  std::int64_t bytes = 0, guessed = 0;           // guessed: part of bytes
  std::size_t blocks = 0;
};
struct StackBytes {
  parsers::StackId stack = 0;
  MemoryCategory category = MemoryCategory::unattributed;
  std::int64_t bytes = 0, largest = 0;
  std::size_t blocks = 0;
};
struct MemoryComposition {
  std::vector<CategoryBytes> categories;         // those with bytes, most first; their sum is the state's allocated bytes
  std::vector<StackBytes> stacks;                // most bytes first
};

// What stood in memory at `state`. before_us: blocks without a stack that are older than this outlived a step.
MemoryComposition compose(const parsers::MemoryState& state, StackJudge& judge, std::int64_t before_us = 0);

// The terms of a diagnosis: categories, and what was reserved but held no block as "fragmentation". MEASURED.
std::vector<CompositionTerm> composition_terms(const MemoryComposition& composition, const parsers::MemoryState& state);

}  // namespace triage::signatures
