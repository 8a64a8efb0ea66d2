#include "parsers/records/timestamp.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

using namespace triage::parsers;

namespace {

std::string shown(TimePoint time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto micro = (time - day).count();
  char out[64];
  std::snprintf(out, sizeof out, "%04d-%02u-%02u %02lld:%02lld:%02lld.%06lld", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), static_cast<long long>(micro / 3'600'000'000),
                static_cast<long long>(micro / 60'000'000 % 60), static_cast<long long>(micro / 1'000'000 % 60),
                static_cast<long long>(micro % 1'000'000));
  return out;
}

}  // namespace

TEST_CASE("every clock format gives the moment and its length") {
  struct Row { std::string clock, want; };
  const Row rows[] = {
      {"2024-01-01 10:00:00,123", "2024-01-01 10:00:00.123000"},
      {"2024-01-01 10:00:00", "2024-01-01 10:00:00.000000"},
      {"2026-12-01 13:15:13.209441", "2026-12-01 13:15:13.209441"},
      {"2025-11-14T08:52:38.3746210Z", "2025-11-14 08:52:38.374621"},
      {"2025-07-25T05:09:16.157949381+08:00", "2025-07-24 21:09:16.157949"},
      {"2025-06-03T22:45:01+0000", "2025-06-03 22:45:01.000000"},
      {"2025-06-03T22:45:01-0730", "2025-06-04 06:15:01.000000"},
      {"2025-06-03 22:45:01 UTC", "2025-06-03 22:45:01.000000"},
      {"2025/06/03 22:45:01", "2025-06-03 22:45:01.000000"},
      {"2026-12-01_13:19:02", "2026-12-01 13:19:02.000000"},
      {"20230603 22:45:01.5", "2023-06-03 22:45:01.500000"},
      {"E0603 22:45:01.123456", "2025-06-03 22:45:01.123456"},
      {"I20230603 22:45:01.123456", "2023-06-03 22:45:01.123456"},
      {"E901 05:20:03.110823792", "2025-09-01 05:20:03.110823"},
      {"W1223 05:17:58.996000", "2025-12-23 05:17:58.996000"},
      {"0603 22:45:01.123456", "2025-06-03 22:45:01.123456"},
      {"Jun  3 22:45:01", "2025-06-03 22:45:01.000000"},
      {"Jun 13 22:45:01.250", "2025-06-13 22:45:01.250000"},
      {"Mon May 24 09:40:12 2021", "2021-05-24 09:40:12.000000"},
      {"Sun Feb 23 16:24:18 2025", "2025-02-23 16:24:18.000000"},
      {"Tue Jun  3 22:45:01 UTC 2025", "2025-06-03 22:45:01.000000"},
      {"Tue, 03 Jun 2025 22:45:01 GMT", "2025-06-03 22:45:01.000000"},
      {"Tue 2025-06-03 22:45:01 UTC", "2025-06-03 22:45:01.000000"},
      {"06/03/2025 10:11:12", "2025-06-03 10:11:12.000000"},
      {"23/06/2025 10:11:12", "2025-06-23 10:11:12.000000"},
      {"06/03/2025 10:11:12 PM", "2025-06-03 22:11:12.000000"},
      {"06/03/2025 12:11:12 AM", "2025-06-03 00:11:12.000000"},
      {"25/06/03 10:11:12", "2025-06-03 10:11:12.000000"},
      {"06/03/25 10:11:12", "2025-06-03 10:11:12.000000"},
      {"03/Jun/2025:10:11:12 +0200", "2025-06-03 08:11:12.000000"},
      {"07-02 10:11:12", "2025-07-02 10:11:12.000000"},
      {"2024-02-29 00:00:00", "2024-02-29 00:00:00.000000"},
  };
  for (const Row& row : rows)
    for (const std::string& after : {std::string(), std::string(" worker.py:12] text"), std::string("] x"), std::string(": W x")}) {
      CAPTURE(row.clock + after);
      const auto got = read_timestamp(row.clock + after, 2025);
      REQUIRE(got.has_value());
      CHECK(shown(got->time) == row.want);
      CHECK(got->length == row.clock.size());
    }
}

TEST_CASE("what is no clock on the wall is not read") {
  for (const char* text :
       {"", "12345.678901", "2024-13-01 10:00:00", "2023-02-29 00:00:00", "2024-01-01 25:00:00", "2024-01-01 10:61:00",
        "2024-01-01 is a date", "1700000000.123 epoch", "E0603 is an error", "Jun 3 rd of month", "Error 10:11:12 x", "10:11:12 only a clock",
        "E1332 22:45:01.123456", "1024 10:11:12 no fraction", "99/99/2025 10:11:12", "2024-01-01 10:00:000", "9999-01-01 10:00:00"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(read_timestamp(text, 2025).has_value());
  }
}

TEST_CASE("every prefix of a clock is read without harm") {
  const std::string text = "Tue Jun  3 22:45:01 UTC 2025 2025-07-25T05:09:16.157949381+08:00 06/03/2025 10:11:12 PM";
  for (std::size_t start = 0; start < text.size(); ++start)
    for (std::size_t length = 0; start + length <= text.size(); ++length) {
      const auto got = read_timestamp(text.substr(start, length), 2025);
      if (got) CHECK(got->length <= length);
    }
}

TEST_CASE("numbers since 1970 are told apart by their size") {
  CHECK(shown(read_epoch("1748990701").value()) == "2025-06-03 22:45:01.000000");
  CHECK(shown(read_epoch("1748990701.25").value()) == "2025-06-03 22:45:01.250000");
  CHECK(shown(read_epoch("1748990701250").value()) == "2025-06-03 22:45:01.250000");
  CHECK(shown(read_epoch("1748990701250000").value()) == "2025-06-03 22:45:01.250000");
  CHECK(shown(read_epoch("1748990701250000000").value()) == "2025-06-03 22:45:01.250000");
  CHECK_FALSE(read_epoch("12345.678"));
  CHECK_FALSE(read_epoch("abc"));
}

TEST_CASE("a clock without a date has a length only") {
  CHECK(clock_length("18:11:06.680 [rank4]:") == 12);
  CHECK(clock_length("19:14:43  NVRM") == 8);
  CHECK(clock_length("1:14:43") == 0);
  CHECK(clock_length("19:14:43:12") == 0);
  CHECK(clock_length("19:14") == 0);
}
