#include "parsers/snapshot/repeats.hpp"

#include <algorithm>
#include <string_view>

#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kTried = 64;   // stacks looked at closely

// A loop below such a frame runs over layers, parameters or recomputed blocks.
bool inside_of_step(const StackTable& stacks, FrameId frame) {
  const std::string_view function = stacks.function_of(frame), file = stacks.file_of(frame);
  return function == "__init__" || function == "from_pretrained" || function == "load_state_dict" || function == "_call_impl" || function == "_init_group" ||
         contains(file, "torch/nn/modules/module.py") || contains(file, "torch/utils/checkpoint.py") || contains(file, "torch/autograd/") || contains(file, "torch/optim/");
}

}  // namespace

bool RepeatFinder::even(const Run& run, std::size_t events) const {
  if (run.count < kTurns) return false;
  const std::size_t span = run.last - run.first;
  if (span * 4 < events || run.last * 10 < events * 6) return false;
  const auto gaps = static_cast<double>(run.count - 1), mean = static_cast<double>(span) / gaps;
  if (mean < 2) return false;                                       // the same line again and again, with nothing in between
  constexpr double kSpread = 0.5;                                   // standard deviation of the gaps, in mean gaps: turns of other lengths
  if (run.squares / gaps - mean * mean > kSpread * kSpread * mean * mean) return false;
  return (run.frees - run.frees_before) * 10 >= span;               // a turn has temporaries
}

bool RepeatFinder::loop_stands_outside(StackId stack, const StackTable& stacks) const {
  const auto frames = stacks.frames_of(stack);                      // innermost first
  const Run& window = runs_[stack];
  // Frames that all stacks of the window share, from the outermost on; and where among them the first one inside of a step is.
  std::size_t shared = frames.size(), inside = frames.size();
  for (std::size_t depth = 0; depth < frames.size(); ++depth)
    if (inside_of_step(stacks, frames[frames.size() - 1 - depth])) {
      inside = depth;
      break;
    }
  for (StackId other = 1; other < runs_.size() && shared > inside; ++other) {
    const Run& run = runs_[other];
    if (run.count == 0 || run.last < window.first || run.first > window.last) continue;
    const auto theirs = stacks.frames_of(other);
    std::size_t same = 0;
    while (same < shared && same < theirs.size() && frames[frames.size() - 1 - same] == theirs[theirs.size() - 1 - same]) ++same;
    shared = same;
  }
  return shared <= inside;
}

std::optional<RepeatFinder::Anchor> RepeatFinder::anchor(const StackTable& stacks, std::size_t events) const {
  std::vector<StackId> candidates;
  for (StackId stack = 1; stack < runs_.size(); ++stack)
    if (even(runs_[stack], events)) candidates.push_back(stack);
  std::ranges::sort(candidates, [&](StackId a, StackId b) { return runs_[a].count != runs_[b].count ? runs_[a].count < runs_[b].count : runs_[a].first < runs_[b].first; });
  if (candidates.size() > kTried) candidates.resize(kTried);
  for (const StackId stack : candidates)
    if (loop_stands_outside(stack, stacks)) return Anchor{stack, runs_[stack].count};
  return std::nullopt;
}

}  // namespace triage::parsers
