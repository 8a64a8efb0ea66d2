// Clock formats at the front of log lines. Time on the wall only: seconds since boot are no time.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "parsers/base/units.hpp"

namespace triage::parsers {

struct StampMatch {
  TimePoint time;      // UTC; a clock without a zone is taken as UTC
  std::size_t length;  // bytes of the text that belong to the clock
};

// The clock that `text` begins with, or nothing. `default_year` completes clocks without a year.
//   2024-01-01 10:00:00,123   2024-01-01T10:00:00.123456789+08:00   2024/01/01 10:00:00   2026-12-01_13:19:02   20230603 22:45:01.1
//   E0603 22:45:01.123456     E901 05:20:03.110823792 (c10: no zero before the month)     0603 22:45:01.123456
//   Jun  3 22:45:01           Tue Jun  3 22:45:01 2025            Tue Jun  3 22:45:01 UTC 2025      Tue, 03 Jun 2025 22:45:01 GMT
//   06/03/2025 10:11:12 [PM]  25/06/03 10:11:12 (Spark: year first)  12/03/24 10:11:12 (Rich)       03/Jun/2025:10:11:12 +0000
//   07-02 10:11:12 (vLLM)
// Of two readings of NN/NN/NN the one with the year nearer to default_year is taken, month before day.
std::optional<StampMatch> read_timestamp(std::string_view text, int default_year);

// Length of a clock without a date (18:11:06, 18:11:06.680), or 0.
std::size_t clock_length(std::string_view text);

// Seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by size (years 2001 to 2286), as JSON loggers write them.
std::optional<TimePoint> read_epoch(std::string_view number);

}  // namespace triage::parsers
