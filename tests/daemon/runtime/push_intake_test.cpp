// Pushed streams: counted on, whoever was let go of meanwhile.
#include "daemon/runtime/push_intake.hpp"

#include <doctest/doctest.h>

#include <map>
#include <thread>

#include "tests/support/scan.hpp"

using namespace triage;
using daemon::SourceNews;
using namespace std::chrono_literals;

namespace {

// A desk that stores all at once.
struct Bench {
  Bench()
      : intake({tests::knowledge(), 1}, queue,
               [this](const std::string& name) -> parsers::Result<std::optional<db::WatchedRow>> {
                 const std::lock_guard guard(lock);
                 ++asked;
                 if (down) return parsers::Error(parsers::ErrorCode::unavailable, "the database is locked");
                 return rows.contains(name) ? std::optional(rows[name]) : std::nullopt;
               },
               [](const std::string&, std::uint64_t) { return std::vector<daemon::SpoolLine>(); },
               [] { return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()); }, 2026, 2),
        desk([this] {
          while (!done)
            for (auto& portion : queue.take(10ms))
              for (SourceNews& news : portion) {
                {
                  const std::lock_guard guard(lock);
                  rows[news.row.name] = news.row;
                }
                if (news.committed) news.committed(true);
              }
        }) {}
  ~Bench() {
    done = true;
    desk.join();
  }
  daemon::PushAnswer push(const std::string& job, const std::string& text) {
    std::vector<daemon::PushedStream> streams(1);
    streams[0].labels = {{"job", job}};
    streams[0].lines.push_back({{}, text});
    return intake.offer(std::move(streams), ++batch);
  }
  std::uint64_t lines(const std::string& job) {
    const std::lock_guard guard(lock);
    for (const auto& [name, row] : rows)
      if (name.find(job) != std::string::npos) return row.lines;
    return 0;
  }

  std::mutex lock;
  std::map<std::string, db::WatchedRow> rows;
  int asked = 0;
  bool down = false;
  std::uint64_t batch = 0;
  std::atomic<bool> done = false;
  daemon::NewsQueue queue{16};
  daemon::PushIntake intake;
  std::thread desk;
};

}  // namespace

TEST_CASE("a stream that was let go of for others goes on where it was") {
  Bench bench;
  using What = daemon::PushAnswer::What;
  for (int round = 1; round <= 3; ++round)
    for (const char* job : {"alpha", "beta", "gamma", "delta"}) {
      CAPTURE(round);
      REQUIRE(bench.push(job, "step " + std::to_string(round) + " of some training").what == What::accepted);
      CHECK(bench.lines(job) == static_cast<std::uint64_t>(round));
    }
}

TEST_CASE("a store that does not answer refuses a stream that is not known for now, and takes those that are") {
  Bench bench;
  using What = daemon::PushAnswer::What;
  REQUIRE(bench.push("alpha", "one").what == What::accepted);
  bench.down = true;
  CHECK(bench.push("alpha", "two").what == What::accepted);
  CHECK(bench.push("beta", "one").what == What::busy);
  CHECK(bench.lines("beta") == 0);
  bench.down = false;
  CHECK(bench.push("beta", "one").what == What::accepted);
}
