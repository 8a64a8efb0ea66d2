#include "parsers/snapshot/timeline_recorder.hpp"

#include <algorithm>
#include <map>

namespace triage::parsers {

namespace {
constexpr std::size_t kStacksOfState = 400;   // most bytes first: the rest is too thin to be drawn
}

TimelineRecorder::TimelineRecorder(const SummaryOptions& options, std::size_t events) : options_(options), events_(events) {
  if (options.timeline_points == 0 || events == 0) return;
  stretch_ = std::max<std::size_t>(1, events / options.timeline_points);
  const std::size_t points = (events + stretch_ - 1) / stretch_;
  if (options.timeline_states > 0) states_every_ = std::max<std::size_t>(1, points / options.timeline_states);
}

void TimelineRecorder::after_event(std::int64_t time_us, std::int64_t allocated, std::int64_t reserved, const std::vector<std::int64_t>& by_stack) {
  if (stretch_ == 0) return;
  const bool first = event_++ % stretch_ == 0;
  if (first) point_ = TimelinePoint{time_us, allocated, allocated, reserved, now_};
  if (first || allocated > point_.allocated_high) {
    point_.allocated_high = allocated;
    point_.groups = now_;
    highest_ = event_;
  }
  point_.allocated_low = std::min(point_.allocated_low, allocated);
  point_.reserved = std::max(point_.reserved, reserved);
  if (event_ % stretch_ != 0 && event_ != events_) return;
  if (takes_state()) {
    TimelineState state;
    state.point = points_.size();
    for (StackId stack = 0; stack < by_stack.size(); ++stack)
      if (by_stack[stack] > 0) state.stacks.emplace_back(stack, by_stack[stack]);
    states_.push_back(std::move(state));
  }
  points_.push_back(point_);
  highs_.push_back(highest_);
  ends_.push_back(event_);
}

// From the end backwards: what was live at a moment was so at all moments before, as far as it is older than the trace.
void TimelineRecorder::add_older() {
  std::ranges::sort(older_, [](const Older& a, const Older& b) { return a.until > b.until; });
  std::array<std::int64_t, kTimelineGroups> sums{};
  std::size_t next = 0;
  for (std::size_t point = points_.size(); point-- > 0;) {
    for (; next < older_.size() && older_[next].until > highs_[point]; ++next) shift(sums[group(older_[next].stack, older_[next].size)], older_[next].size);
    for (std::size_t g = 0; g < kTimelineGroups; ++g) shift(points_[point].groups[g], sums[g]);
  }
  std::map<StackId, std::int64_t> stacks;
  next = 0;
  for (auto state = states_.rbegin(); state != states_.rend(); ++state) {
    for (; next < older_.size() && older_[next].until > ends_[state->point]; ++next) shift(stacks[older_[next].stack], older_[next].size);
    std::map<StackId, std::int64_t> all = stacks;
    for (const auto& [stack, bytes] : state->stacks) shift(all[stack], bytes);
    state->stacks.assign(all.begin(), all.end());
  }
}

void TimelineRecorder::finish(DeviceSummary& out) {
  add_older();
  for (TimelineState& state : states_) {
    std::ranges::stable_sort(state.stacks, [](const auto& a, const auto& b) { return a.second > b.second; });
    if (state.stacks.size() > kStacksOfState) state.stacks.resize(kStacksOfState);
  }
  out.timeline = std::move(points_);
  out.timeline_states = std::move(states_);
  out.timeline_stretch = std::max<std::size_t>(1, stretch_);
}

}  // namespace triage::parsers
