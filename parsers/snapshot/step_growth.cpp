#include "parsers/snapshot/step_growth.hpp"

#include <algorithm>

namespace triage::parsers {

namespace {

// Sums of a hostile file may run over; a wrong figure is all that may follow.
std::int64_t wrapped_difference(std::int64_t a, std::int64_t b) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)); }

}  // namespace

void StepGrowth::sample(const std::vector<std::int64_t>& by_stack) {
  if (skip_ > 0) {
    --skip_;
    return;
  }
  if (samples_++ == 0) {
    first_ = last_ = by_stack;
    return;
  }
  for (std::size_t stack = 0; stack < by_stack.size(); ++stack) {
    const std::int64_t step = wrapped_difference(by_stack[stack], last_[stack]);
    if (step < 0) downs_[stack] = 1;
    ups_[stack] += step > 0;
    low_[stack] = samples_ == 2 ? step : std::min(low_[stack], step);
    high_[stack] = samples_ == 2 ? step : std::max(high_[stack], step);
    last_[stack] = by_stack[stack];
  }
}

std::optional<Leak> StepGrowth::leak(const std::vector<std::int64_t>& at_end) const {
  if (samples_ < kLeast) return std::nullopt;
  Leak leak;
  leak.steps = samples_;
  const std::size_t changes = samples_ - 1;
  for (std::size_t stack = 0; stack < last_.size(); ++stack) {
    if (downs_[stack] || ups_[stack] * 10 < changes * 8) continue;
    if (even_ && high_[stack] - low_[stack] > high_[stack] / 8) continue;
    const std::int64_t grown = wrapped_difference(last_[stack], first_[stack]);
    if (grown <= 0 || at_end[stack] < last_[stack] - last_[stack] / 8) continue;
    leak.stacks.push_back({static_cast<StackId>(stack), grown / static_cast<std::int64_t>(changes), last_[stack]});
  }
  if (leak.stacks.empty()) return std::nullopt;
  std::ranges::sort(leak.stacks, [](const GrowingStack& a, const GrowingStack& b) { return a.bytes_per_step > b.bytes_per_step; });
  for (const GrowingStack& stack : leak.stacks)
    if (__builtin_add_overflow(leak.bytes_per_step, stack.bytes_per_step, &leak.bytes_per_step)) leak.bytes_per_step = INT64_MAX;
  return leak;
}

}  // namespace triage::parsers
