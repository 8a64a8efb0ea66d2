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

namespace {

// How the ranks of a verdict stand to those that were made to fail.
struct Score {
  int hung = 0, exact = 0, honest = 0;   // honest: all faulty ranks are named or stand in a set, and no other is named
  int named_wrongly = 0, empty_sets = 0; // ranks; sets without a faulty rank
};

Score score(tests::Fault kind, int faults, unsigned seeds) {
  Score out;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    tests::ShapedJob job(seed * 13 + static_cast<unsigned>(faults), faults, {kind});
    if (!job.run()) continue;
    ++out.hung;
    const auto verdict = job.judge();
    if (!verdict) continue;
    const std::vector<int> wanted = job.faulty();
    const auto faulty = [&](int rank) { return std::find(wanted.begin(), wanted.end(), rank) != wanted.end(); };
    std::set<int> covered(verdict->fault.culprit_ranks.begin(), verdict->fault.culprit_ranks.end());
    int wrong = 0, empty = 0;
    for (const int rank : covered) wrong += !faulty(rank);
    for (const auto& set : verdict->fault.one_of) {
      empty += std::none_of(set.begin(), set.end(), faulty);
      covered.insert(set.begin(), set.end());
    }
    out.named_wrongly += wrong;
    out.empty_sets += empty;
    out.exact += verdict->fault.culprit_ranks == wanted && verdict->fault.one_of.empty();
    out.honest += wrong == 0 && empty == 0 && std::all_of(wanted.begin(), wanted.end(), [&](int rank) { return covered.contains(rank); });
  }
  return out;
}

}  // namespace

TEST_CASE("a device that hangs: the set that it is in is told, and nobody is named wrongly") {
  for (const int faults : {1, 2}) {
    CAPTURE(faults);
    const Score s = score(tests::Fault::sleeps, faults, 150);
    CAPTURE(s.honest);
    CHECK(s.hung > 70);
    CHECK(s.named_wrongly == 0);
    CHECK(s.empty_sets == 0);
    CHECK(s.honest * 100 >= s.hung * (faults == 1 ? 100 : 60));
  }
}

TEST_CASE("a device that fails: most often the rank is named, else a set that holds it") {
  for (const int faults : {1, 2}) {
    CAPTURE(faults);
    const Score s = score(tests::Fault::fails, faults, 150);
    CAPTURE(s.exact);
    CAPTURE(s.honest);
    CHECK(s.hung > 70);
    CHECK(s.named_wrongly == 0);
    CHECK(s.exact * 100 >= s.hung * (faults == 1 ? 70 : 45));
    CHECK(s.honest * 100 >= s.hung * (faults == 1 ? 97 : 50));
  }
}
