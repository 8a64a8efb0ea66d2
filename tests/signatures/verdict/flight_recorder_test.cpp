#include "signatures/verdict/flight_recorder.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <deque>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tests/signatures/verdict/recorder_job.hpp"
#include "tests/support/gunzip.hpp"

using namespace triage;
using namespace triage::signatures;
using parsers::RecordedOp;
using parsers::Recording;
using tests::Ranks;

namespace {

std::optional<RecorderVerdict> judge_folder(const std::string& folder, std::deque<Recording>& kept, int leave_out = -1) {
  std::vector<RankRecording> ranks;
  for (int rank = 0; rank < 16; ++rank) {
    if (rank == leave_out) continue;
    const std::string name = folder + "/_dump_" + std::to_string(rank);
    auto recording = parsers::read_flight_recorder(tests::read_file(name), name);
    REQUIRE(recording.ok());
    CHECK(recording->rank == rank);
    kept.push_back(std::move(recording).value());
    ranks.push_back({rank, &kept.back()});
  }
  return judge_recordings(ranks);
}

}  // namespace

TEST_CASE("two real jobs: the ranks that were made to fail are named, and no other") {
  struct Row {
    const char* job;
    std::vector<int> culprits;
    const char* operation;
    std::int64_t sequence;
  };
  const Row rows[] = {{"gpu_error_1st", {12, 14}, "all_to_all", 20537}, {"lock_gil_1st", {9, 14}, "all_to_all", 45265}};
  for (const Row& row : rows) {
    SUBCASE(row.job) {
      std::deque<Recording> kept;
      const auto verdict = judge_folder(std::string(TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/flight-recorder/") + row.job, kept);
      REQUIRE(verdict);
      CHECK(verdict->fault.culprit_ranks == row.culprits);
      CHECK(verdict->fault.silent_ranks.empty());
      CHECK(verdict->fault.waiting_ranks.size() == 14);
      CHECK(verdict->fault.operation == row.operation);
      CHECK(verdict->fault.sequence == row.sequence);
      CHECK(!verdict->desync);
      CHECK(verdict->reasons.size() == 2);
    }
  }
}

TEST_CASE("a real job without the dump of a rank: it is silent and a suspect") {
  std::deque<Recording> kept;
  const auto verdict = judge_folder(TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/flight-recorder/lock_gil_1st", kept, 9);
  REQUIRE(verdict);
  CHECK(verdict->fault.silent_ranks == std::vector<int>{9});
  CHECK(verdict->fault.culprit_ranks == std::vector<int>{9, 14});
}

TEST_CASE("who did not call, and who only waits for a waiting one") {
  Ranks job(4);
  job.group("0", "default_pg", {0, 1, 2, 3});
  job.group("1", "tp", {0, 1});
  job.group("2", "tp", {2, 3});
  job.done({0, 1, 2, 3}, "0", "all_reduce", 5);
  SUBCASE("a chain over two groups") {
    job.open({2}, "2", "all_gather", 9);            // 3 never came
    job.open({0, 1}, "0", "all_reduce", 6);         // and so 2 not to this one
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{3});
    CHECK(verdict->fault.waiting_ranks == std::vector<int>{0, 1, 2});
    CHECK(verdict->reasons.at(0).find("rank 3 never called") != std::string::npos);
  }
  SUBCASE("nothing is open: a job that is well") { CHECK(!job.judge()); }
  SUBCASE("no dump of the one that is waited for") {
    job.open({0, 1, 2}, "0", "all_reduce", 6);
    const auto verdict = job.judge({3});
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{3});
    CHECK(verdict->fault.silent_ranks == std::vector<int>{3});
  }
  SUBCASE("all came and none finished") {
    job.open({0, 1, 2, 3}, "0", "all_reduce", 6);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.note.find("all members called") != std::string::npos);
    CHECK(verdict->fault.culprit_ranks.empty());
    CHECK(verdict->fault.one_of == std::vector<std::vector<int>>{{0, 1, 2, 3}});
  }
  SUBCASE("timing on: the one whose device has not begun") {
    job.open({0, 1, 3}, "0", "all_reduce", 6, RecordedOp::State::started);
    job.open({2}, "0", "all_reduce", 6);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{2});
  }
  SUBCASE("complete on the others: its own device stands still") {
    job.done({0, 2, 3}, "0", "all_reduce", 6);
    job.open({1}, "0", "all_reduce", 6);
    job.open({0}, "1", "all_gather", 4);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{1});
  }
  SUBCASE("another call at the same number") {
    job.open({0, 1, 2}, "0", "all_reduce", 6);
    job.open({3}, "0", "broadcast", 6);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->desync);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{3});
    CHECK(verdict->fault.operation == "broadcast");
  }
  SUBCASE("another size at the same number") {
    job.open({0, 1, 2}, "0", "all_reduce", 6);
    job.open({3}, "0", "all_reduce", 6, RecordedOp::State::scheduled, "Float[7]");
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->desync);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{3});
  }
  SUBCASE("two ranks, two calls, each in the other order") {
    job.open({0}, "0", "all_reduce", 6);
    job.open({0}, "1", "all_gather", 4);
    job.open({1}, "1", "all_gather", 4);
    job.open({1, 2, 3}, "0", "all_reduce", 6);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{0, 1});
    CHECK(verdict->reasons.at(0).find("different orders") != std::string::npos);
  }
}

TEST_CASE("a pipeline: the stage that never sent") {
  Ranks job(3);
  job.group("0", "pipeline", {0, 1, 2});
  job.send(1, 2, "0", 1);
  job.receive(2, 1, "0", 1);
  job.receive(1, 0, "0", 2, true);   // stands before the send in the rank's order
  const auto verdict = job.judge();
  REQUIRE(verdict);
  CHECK(verdict->fault.culprit_ranks == std::vector<int>{0});
  CHECK(verdict->fault.operation == "recv");
}

TEST_CASE("a send of one size met by a receive of another") {
  Ranks job(3);
  job.group("0", "pipeline", {0, 1, 2});
  job.send(0, 1, "0", 1);
  job.receive(1, 0, "0", 1);
  job.receive(2, 1, "0", 1);
  const auto sized = [&](int rank, const char* text, std::int64_t elements) {
    auto& op = job.at(rank).pending.front();
    op.inputs = op.outputs = text;
    op.elements_in = op.elements_out = elements;
  };
  sized(0, "BFloat16[4096,1,5120]", 4096 * 5120);
  sized(1, "BFloat16[4096,5120]", 4096 * 5120);   // another shape of as many elements is no fault
  CHECK_FALSE(job.judge()->desync);
  sized(1, "BFloat16[2048,1,5120]", 2048 * 5120);
  auto verdict = job.judge();
  REQUIRE(verdict);
  CHECK(verdict->desync);
  CHECK(verdict->fault.culprit_ranks == std::vector<int>{0, 1});
  CHECK(verdict->fault.operation == "send");
  sized(1, "Float[4096,1,5120]", 4096 * 5120);
  verdict = job.judge();
  CHECK(verdict->desync);
  CHECK(verdict->reasons.at(0).find("receives Float") != std::string::npos);
}

TEST_CASE("simulated jobs: a rank that stops calling, or dies without a dump, is named exactly") {
  for (unsigned seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    tests::SimulatedJob job(seed);
    if (!job.run()) continue;   // the job ended before the fault
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{job.faulty()});
  }
}

TEST_CASE("rank 0 given twice, and dumps of another job, do no harm") {
  Ranks job(2);
  job.group("0", "default_pg", {0, 1});
  job.open({0}, "0", "all_reduce", 1);
  auto ranks = job.recordings({});
  ranks.push_back(ranks.front());
  Ranks other(2);
  other.group("7", "another", {5, 6});
  for (auto r : other.recordings({})) ranks.push_back({r.rank + 5, r.recording});
  const auto verdict = judge_recordings(ranks);
  REQUIRE(verdict);
  CHECK(verdict->fault.culprit_ranks == std::vector<int>{1});
}

// The public recording gpu_error_1st: 16 ranks, of which two were made to fail (12 and 14). What few of its dumps can know, and what all of them do.
TEST_CASE("one dump, some and all of a job: what is proven") {
  struct Row {
    const char* name;
    std::vector<int> given;
    bool proven, culprits;
  };
  std::vector<int> all(16);
  for (int i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = i;
  for (const Row& row : {Row{"one", {0}, false, true}, Row{"two", {0, 4}, false, true}, Row{"half", {0, 1, 2, 3, 4, 5, 6, 7}, false, true}, Row{"all", all, true, true}}) {
    CAPTURE(std::string(row.name));
    std::deque<Recording> kept;
    std::vector<RankRecording> recordings;
    for (const int rank : row.given) {
      const std::string name = TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/flight-recorder/gpu_error_1st/_dump_" + std::to_string(rank);
      auto recording = parsers::read_flight_recorder(tests::read_file(name), name);
      REQUIRE(recording.ok());
      kept.push_back(std::move(recording).value());
      recordings.push_back({rank, &kept.back()});
    }
    const auto verdict = judge_recordings(recordings);
    REQUIRE(verdict);
    CHECK(verdict->proven == row.proven);
    CHECK(verdict->fault.culprit_ranks.empty() != row.culprits);
    bool said = false;
    for (const auto& reason : verdict->reasons) said = said || (reason.find("left a dump") != std::string::npos && reason.find("would tell") != std::string::npos);
    CHECK(said != row.proven);
  }
}

TEST_CASE("a member that left no dump is proven dead only where nearly all others left one") {
  Ranks job(16);
  std::vector<int> all(16);
  for (int i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = i;
  job.group("0", "default_pg", all);
  job.open({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, "0", "all_reduce", 6);
  const auto one = job.judge({15});
  REQUIRE(one);
  CHECK(one->proven);
  CHECK(one->fault.culprit_ranks == std::vector<int>{15});
  const auto few = job.judge({3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  REQUIRE(few);
  CHECK_FALSE(few->proven);
}

TEST_CASE("ten thousand ranks of one group are judged at once, not pair by pair") {
  constexpr int kWorld = 10'000;   // pair by pair this took minutes and gigabytes
  std::vector<int> all(kWorld);
  std::iota(all.begin(), all.end(), 0);
  Ranks job(kWorld);
  job.group("0", "default_pg", all);
  job.done(all, "0", "all_reduce", 6);
  SUBCASE("one has not come") {
    std::vector<int> others = all;
    others.erase(others.begin() + 1234);
    job.open(others, "0", "all_reduce", 7);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks == std::vector<int>{1234});
    CHECK(verdict->fault.waiting_ranks == others);
  }
  SUBCASE("all have come, and none finished") {
    job.open(all, "0", "all_reduce", 7);
    const auto verdict = job.judge();
    REQUIRE(verdict);
    CHECK(verdict->fault.culprit_ranks.empty());
    CHECK(verdict->fault.one_of == std::vector<std::vector<int>>{all});
  }
}

TEST_CASE("half of four thousand ranks left no dump: at once, and in one sentence") {
  constexpr int kWorld = 4'096;   // pair by pair these are four million waits, and two thousand sentences
  std::vector<int> all(kWorld), half(kWorld / 2);
  std::iota(all.begin(), all.end(), 0);
  std::iota(half.begin(), half.end(), 0);
  const std::vector<int> others(all.begin() + kWorld / 2, all.end());
  const std::set<int> gone(others.begin(), others.end());
  Ranks job(kWorld);
  job.group("0", "default_pg", all);
  job.done(all, "0", "all_reduce", 6);
  job.open(half, "0", "all_reduce", 7);
  const auto start = std::clock();
  const auto without = job.judge(gone);
  const auto idle = job.judge();
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 2.0);   // of processor time; 0.1 s here
  REQUIRE(without);
  CHECK(without->fault.culprit_ranks == others);
  CHECK(without->fault.silent_ranks == others);
  CHECK_FALSE(without->proven);
  REQUIRE(without->reasons.size() == 2);
  CHECK(without->reasons[0] == "ranks 2048-4095 left no dump, and ranks 0-2047 wait for them in all_reduce number 7 of default_pg");
  REQUIRE(idle);
  CHECK(idle->fault.culprit_ranks == others);
  CHECK(idle->reasons == std::vector<std::string>{"ranks 2048-4095 never called all_reduce number 7 of default_pg, in which or before which ranks 0-2047 wait for them, and "
                                                  "wait in no call themselves: their processes were held up outside of NCCL"});
}
