// The time of day, for those who pass it on: everything below takes it as an argument.
#pragma once

#include <chrono>

#include "parsers/base/units.hpp"

namespace triage::daemon {

inline parsers::TimePoint wall_clock() { return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()); }

// In UTC: for lines that tell no year.
inline int this_year() {
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  return static_cast<int>(std::chrono::year_month_day(today).year());
}

}  // namespace triage::daemon
