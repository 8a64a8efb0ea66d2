// What stays behind from step to step: live bytes of each call stack, compared at the same point of each step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parsers/snapshot/summary.hpp"

namespace triage::parsers {

class StepGrowth {
 public:
  static constexpr std::size_t kWarmUp = 2;   // the first steps make the optimizer's states and the caches of libraries
  static constexpr std::size_t kLeast = 3;    // samples that show growth

  // `warm_up` samples are left out; with `even` a stack has to grow by about the same bytes each time, which few samples need.
  StepGrowth(std::size_t stacks, std::size_t warm_up, bool even) : skip_(warm_up), even_(even), first_(stacks), last_(stacks), low_(stacks), high_(stacks), ups_(stacks), downs_(stacks) {}

  // Live bytes of each stack now. All samples have as many stacks as the constructor was told.
  void sample(const std::vector<std::int64_t>& by_stack);

  // Stacks that grew at nearly every step and never shrank: a cache that fills, or a batch that is longer, does not look like this; nor does
  // what is gone at the end, given as a sample too. Empty where nothing grew, or too few samples were taken. Leak::steps_left and anchor are
  // the caller's.
  std::optional<Leak> leak(const std::vector<std::int64_t>& at_end) const;

 private:
  std::size_t skip_, samples_ = 0;
  bool even_;
  std::vector<std::int64_t> first_, last_, low_, high_;   // low_, high_: the smallest and the largest step of growth
  std::vector<std::uint32_t> ups_;
  std::vector<std::uint8_t> downs_;
};

}  // namespace triage::parsers
