// Draws memory over time while a trace is walked: for each of some stretches of events the extremes, and what was live at the highest moment.
#pragma once

#include <cstdint>
#include <vector>

#include "parsers/snapshot/summary.hpp"

namespace triage::parsers {

class TimelineRecorder {
 public:
  // options must outlive it. events: of the whole trace.
  TimelineRecorder(const SummaryOptions& options, std::size_t events);

  // A block of the trace came (size > 0) or went (size < 0): before the after_event of its event.
  void change(StackId stack, std::int64_t size) {
    if (stretch_ > 0) shift(now_[group(stack, size < 0 ? -size : size)], size);
  }
  // Once for each event. allocated, reserved: after it; by_stack: live bytes of blocks of the trace.
  void after_event(std::int64_t time_us, std::int64_t allocated, std::int64_t reserved, const std::vector<std::int64_t>& by_stack);
  // After the last event: a block from before the trace, live until event number `until` (from 1).
  void older(StackId stack, std::int64_t size, std::size_t until) {
    if (stretch_ > 0) older_.push_back({stack, size, until});
  }
  void finish(DeviceSummary& out);

 private:
  static void shift(std::int64_t& sum, std::int64_t by) { sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(by)); }
  std::size_t group(StackId stack, std::int64_t size) const {
    const std::size_t group = options_.group_of ? options_.group_of(stack, size) : 0;
    return group < kTimelineGroups ? group : 0;
  }

  struct Older {
    StackId stack = 0;
    std::int64_t size = 0;
    std::size_t until = 0;
  };
  bool takes_state() const { return states_every_ > 0 && points_.size() % states_every_ == 0; }
  void add_older();

  const SummaryOptions& options_;
  std::size_t events_, stretch_ = 0, states_every_ = 0, event_ = 0;
  std::array<std::int64_t, kTimelineGroups> now_{};
  TimelinePoint point_;
  std::size_t highest_ = 0;            // event of the highest moment of the stretch
  std::vector<TimelinePoint> points_;
  std::vector<std::size_t> highs_, ends_;   // of each point: the event of its highest moment, its last event
  std::vector<TimelineState> states_;
  std::vector<Older> older_;
};

}  // namespace triage::parsers
