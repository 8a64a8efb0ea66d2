// How long the service's store takes for a batch, beside readers or not, and how large its file is.
// usage: live_store_bench [--floor] [FOLDER]      --floor: exit 1 when the median of a plain batch is over 20 ms (the aim is 10 ms; the rest is for a busy machine)
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "db/live_store.hpp"
#include "db/query.hpp"
#include "db/retention.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kFiles = 10'000;

std::string line_of(std::size_t i) {
  return "[rank" + std::to_string(i % 512) + "]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of " +
         std::to_string(i) + std::string(60, '.');
}

double millis(Clock::time_point from) { return std::chrono::duration<double, std::milli>(Clock::now() - from).count(); }

void print(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) { return times[std::min(times.size() - 1, static_cast<std::size_t>(share * static_cast<double>(times.size())))]; };
  std::printf("%-58s n %4zu  median %6.2f ms  p99 %6.2f ms  worst %6.2f ms\n", what, times.size(), at(0.5), at(0.99), times.back());
}

struct Bench {
  explicit Bench(const std::string& file) : path(file), store(std::move(db::LiveStore::open(file)).value()) {}

  // All files, as the discovery of a cluster finds them.
  bool fill() {
    db::LiveBatch batch = batch_at(1);
    for (std::size_t i = 0; i < kFiles; ++i) {
      db::SourceCommit source =
          source_of("/logs/job" + std::to_string(i / 512) + "/attempt-1/node-" + std::to_string(i / 8) + "/rank" + std::to_string(i % 512) + ".log", 0);
      source.row.job = "job" + std::to_string(i / 512);
      source.row.node = "node-" + std::to_string(i / 8);
      source.row.rank = static_cast<int>(i % 512);
      source.row.inode = i;
      source.row.device = 64768;
      batch.sources.push_back(std::move(source));
    }
    const auto begin = Clock::now();
    if (!store.commit(batch).ok()) return false;
    std::printf("%-58s %.0f ms\n", "10,000 new files in one batch", millis(begin));
    for (auto& source : batch.sources) rows.push_back(std::move(source.row));
    return true;
  }

  // 1,000 checkpoints and 50 lines a batch, the files in turns that touch all pages.
  std::vector<double> batches(int count, std::size_t tail_bytes, bool flush) {
    std::vector<double> times;
    for (int n = 0; n < count; ++n) {
      db::LiveBatch batch = batch_at(++round);
      batch.flush = flush;
      for (std::size_t i = 0; i < 1000; ++i) {
        db::SourceCommit source;
        source.row = rows[(i * 10 + static_cast<std::size_t>(round)) % kFiles];
        source.row.offset = static_cast<std::uint64_t>(round) * 4000;
        source.row.lines = static_cast<std::uint64_t>(round) * 40;
        source.row.size = source.row.offset;
        source.row.check_hash = i * 0x9e3779b97f4a7c15U;
        source.row.seen_at = at(round);
        if (tail_bytes > 0) source.row.tail = std::string(tail_bytes, static_cast<char>('a' + round % 26));
        if (i % 20 == 0) source.spool.push_back({static_cast<std::uint64_t>(round) * 4000, static_cast<std::uint64_t>(round) * 40, line_of(i)});
        batch.sources.push_back(std::move(source));
      }
      const auto begin = Clock::now();
      const auto done = store.commit(batch);
      times.push_back(millis(begin));
      if (!done.ok()) std::printf("commit failed: %s\n", done.error().reason().c_str());
    }
    return times;
  }

  void print_size(const char* what) {
    auto retention = db::Retention::open(path);
    (void)retention->move_log();
    std::printf("%-58s %.1f MB, log %.1f MB\n", what, static_cast<double>(std::filesystem::file_size(path)) / 1e6,
                static_cast<double>(std::filesystem::file_size(path + "-wal")) / 1e6);
  }

  std::string path;
  db::LiveStore store;
  std::vector<db::WatchedRow> rows;
  std::int64_t round = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bool floor = false;
  std::string parent = std::filesystem::temp_directory_path();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--floor") == 0)
      floor = true;
    else
      parent = argv[i];
  }
  std::string name = parent + "/triage-bench-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return 2;
  double median = 0;
  {
    Bench bench(name + "/live.db");
    if (!bench.fill()) return 2;
    bench.print_size("file with 10,000 watched files");
    auto begin = Clock::now();
    const auto rows = bench.store.watched();
    std::printf("%-58s %.0f ms\n", "reading the 10,000 at a start", millis(begin));
    if (!rows.ok()) return 2;

    std::vector<double> plain = bench.batches(300, 0, false);
    print("1,000 checkpoints + 50 lines", plain);
    std::nth_element(plain.begin(), plain.begin() + 150, plain.end());
    median = plain[150];
    bench.print_size("after 300 batches (15,000 lines)");
    print("the same, each on the disk (flush)", bench.batches(100, 0, true));
    {
      std::atomic<bool> done{false};
      std::vector<std::thread> threads;
      for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
          auto query = db::Query::open(bench.path);
          while (!done) {
            (void)query->sources({});
            (void)query->totals();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        });
      threads.emplace_back([&] {
        auto retention = db::Retention::open(bench.path);
        while (!done) {
          (void)retention->move_log();
          std::this_thread::sleep_for(std::chrono::milliseconds(500));
        }
      });
      print("the same beside two readers, log moved twice a second", bench.batches(300, 0, false));
      done = true;
      for (std::thread& thread : threads) thread.join();
    }
    // Retention while the writer works: 3,000 closed incidents of 20 kB go.
    for (int i = 0; i < 3000; ++i) {
      IncidentBatch one("inc" + std::to_string(i), 100 + i, true, std::string(20'000, 'x'));
      for (int k = 1; k < 50; ++k) one.diagnosis.findings.push_back(one.diagnosis.findings[0]);
      if (!bench.store.commit(one.batch).ok()) return 2;
    }
    bench.print_size("with 3,000 incidents of 20 kB and 50 findings");
    {
      std::atomic<bool> done{false};
      std::vector<double> slices;
      std::int64_t deleted = 0;
      std::thread sweeper([&] {
        auto retention = db::Retention::open(bench.path);
        db::RetentionLimits limits;
        limits.age = std::chrono::seconds(10);
        while (!done) {
          const auto from = Clock::now();
          const auto slice = retention->slice(limits, at(100'000));
          slices.push_back(millis(from));
          if (slice.ok()) deleted += slice->incidents;
          (void)retention->move_log();
          std::this_thread::sleep_for(std::chrono::milliseconds(slice.ok() && slice->more ? 20 : 200));
        }
      });
      print("batches while retention deletes them", bench.batches(150, 0, false));
      done = true;
      sweeper.join();
      print("slices of retention, with waiting for the writer", slices);
      std::printf("%-58s %lld of 3000\n", "deleted meanwhile", static_cast<long long>(deleted));
    }
    bench.print_size("after that");
    print("1,000 checkpoints with tails of 4 KiB + 50 lines", bench.batches(100, 4096, false));
    bench.print_size("file with 10,000 tails of 4 KiB");
  }
  std::filesystem::remove_all(name);
  return floor && median > 20 ? 1 : 0;
}
