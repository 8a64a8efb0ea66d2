#include "tests/signatures/verdict/recorder_shapes.hpp"

#include <doctest/doctest.h>

using namespace triage;

TEST_CASE("jobs of 2 to 64 ranks: one rank that stops or dies is named, and no other") {
  int hung = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    tests::ShapedJob job(seed, 1);
    if (!job.run()) continue;
    ++hung;
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == job.faulty());
  }
  CHECK(hung > 80);
}

TEST_CASE("two ranks at once: at least one of them is named, most often both, and hardly ever another") {
  int hung = 0, exact = 0, found = 0, wrong = 0;
  for (unsigned seed = 1000; seed < 1150; ++seed) {
    CAPTURE(seed);
    tests::ShapedJob job(seed, 2);
    if (job.ranks() < 4 || !job.run()) continue;
    ++hung;
    const auto verdict = job.judge();
    REQUIRE(verdict);
    const std::vector<int> wanted = job.faulty();
    int right = 0;
    for (const int rank : verdict->fault.culprit_ranks) std::find(wanted.begin(), wanted.end(), rank) != wanted.end() ? ++right : ++wrong;
    CHECK(right > 0);
    found += right;
    exact += verdict->fault.culprit_ranks == wanted;
  }
  CAPTURE(exact);
  CAPTURE(found);
  CAPTURE(wrong);
  CHECK(hung > 70);
  CHECK(wrong * 50 <= found);
  CHECK(exact * 10 >= hung * 7);
}
