#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "daemon/pipeline/newlines.hpp"

TEST_CASE("newlines are counted as one would, for every length and alignment") {
  std::mt19937 random(3);
  std::string text(70'000, '\n');
  for (char& c : text) c = random() % 3 == 0 ? '\n' : static_cast<char>(random());
  for (const std::size_t begin : {0u, 1u, 7u, 63u})
    for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 1000u, 16'320u, 16'321u, 60'000u}) {
      const std::string_view part = std::string_view(text).substr(begin, size);
      CHECK(triage::daemon::count_newlines(part) == static_cast<std::uint64_t>(std::count(part.begin(), part.end(), '\n')));
    }
  CHECK(triage::daemon::count_newlines(std::string(100'000, '\n')) == 100'000);
}
