// The worker over real files: what it tells the desk while they grow, rotate, are cut, cannot be read, and after a restart.
#include "daemon/runtime/worker.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/gzip.hpp"
#include "tests/support/real_files.hpp"
#include "tests/support/scan.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage;
using daemon::SourceNews;
using parsers::TimePoint;
using namespace std::chrono_literals;

namespace {

std::string recorded(const std::string& name) {
  std::ifstream in(TRIAGE_SOURCE_DIR "/tests/corpus/recorded/" + name, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  REQUIRE(in);
  return out.str();
}

// The real file system, which can run out of descriptors.
class ShortFiles final : public tests::RealFiles {
 public:
  bool out_of_descriptors = false;
  parsers::Result<std::unique_ptr<daemon::OpenFile>> open(const std::string& path) override {
    if (out_of_descriptors) return parsers::Error(parsers::ErrorCode::unavailable, "no descriptors are left");
    return RealFiles::open(path);
  }
};

// A worker without a thread, and a desk that only keeps what it is told: the newest row and all spool lines of each generation.
struct Bench {
  Bench() : path(folder.path() + "/rank0.log") { begin(); }

  void begin() {
    daemon::WorkerOptions options;
    options.default_year = 2026;
    worker = std::make_unique<daemon::Worker>(
        tests::knowledge(), files, queue,
        [this](const std::string&) -> parsers::Result<std::optional<db::WatchedRow>> { return rows.empty() ? std::nullopt : std::optional(rows.rbegin()->second); },
        [this](const std::string&, std::uint64_t generation) { return spools[generation]; }, [this] { return now; }, std::move(options));
    daemon::FoundFile file;
    file.path = file.source.name = path;
    file.source.job = "job";
    worker->follow(file);
  }
  void write(std::string_view text) { std::ofstream(path, std::ios::binary | std::ios::app) << text; }
  // Passes until nothing comes any more.
  void run(std::chrono::milliseconds time = 3s, bool wake = true) {
    if (wake) worker->wake(path);
    for (const TimePoint end = now + time; now < end; now += 100ms) {
      (void)worker->pass();
      for (auto& portion : queue.take(0ms))
        for (SourceNews& news : portion) {
          rows[news.row.generation] = news.row;
          auto& spool = spools[news.row.generation];
          spool.insert(spool.end(), news.spool.begin(), news.spool.end());
          telling[news.row.generation] += news.telling;
          if (news.committed) news.committed(true);
          ++told;
        }
    }
  }
  std::string kind(std::uint64_t generation) {
    daemon::BlockScanner scanner(*tests::knowledge());
    signatures::SourceInfo info;
    info.name = path;
    daemon::Intake intake(tests::knowledge(), info, 2026);
    daemon::replay(daemon::in_order(spools[generation]), scanner, intake);
    std::vector<signatures::SourceFindings> sources;
    sources.push_back(intake.finish());
    const daemon::Answer answer = daemon::judge_sources(*tests::knowledge(), std::move(sources), now);
    return answer.incidents.size() == 1 ? answer.incidents.front().diagnosis.kind : std::to_string(answer.incidents.size()) + " incidents";
  }

  const tests::TempFolder folder;
  const std::string path;
  TimePoint now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  ShortFiles files;
  daemon::NewsQueue queue{1000};
  std::map<std::uint64_t, db::WatchedRow> rows;
  std::map<std::uint64_t, std::vector<daemon::SpoolLine>> spools;
  std::map<std::uint64_t, std::uint64_t> telling;
  int told = 0;
  std::unique_ptr<daemon::Worker> worker;
};

}  // namespace

TEST_CASE("worker: a restart in the middle of a failure goes on at its checkpoint, and the spool tells the failure") {
  const std::string text = recorded("capacity_forward.log");
  for (const std::size_t cut : {text.size() / 4, text.size() / 2, text.size() * 3 / 4}) {
    CAPTURE(cut);
    Bench bench;
    bench.write(text.substr(0, cut));
    bench.run();
    CHECK(bench.rows[0].offset == text.rfind('\n', cut - 1) + 1);   // the line without an end is left in the file
    bench.begin();
    bench.write(text.substr(cut));
    bench.run();
    CHECK(bench.rows[0].offset == text.size());
    CHECK(bench.kind(0) == "gpu.oom.capacity");
  }
}

TEST_CASE("worker: a file that is rotated before its end is read to its end, and its successor is a generation of its own") {
  const std::string text = recorded("capacity_forward.log");
  Bench bench;
  bench.write(text.substr(0, 1000));
  bench.run();
  bench.write(text.substr(1000));
  std::filesystem::rename(bench.path, bench.path + ".1");
  bench.write("starting again\n");
  bench.run(10s);
  REQUIRE(bench.rows.size() == 2);
  CHECK(bench.rows[0].ended);
  CHECK(bench.rows[0].offset == text.size());
  CHECK(bench.kind(0) == "gpu.oom.capacity");
  CHECK(bench.rows[1].offset == 15);
  CHECK(bench.rows[1].lost_bytes == 0);
}

TEST_CASE("worker: a file that is cut begins anew") {
  Bench bench;
  bench.write("starting\nwaiting for the first batch\n");
  bench.run();
  std::filesystem::resize_file(bench.path, 0);
  bench.run();
  const std::string text = recorded("fragmentation.log");
  bench.write(text);
  bench.run();
  CHECK(bench.rows.rbegin()->second.offset == text.size());
  CHECK(bench.kind(bench.rows.rbegin()->first) == "gpu.oom.fragmentation");
}

TEST_CASE("worker: without descriptors it says so, and reads on when there are some, without being woken") {
  Bench bench;
  bench.files.out_of_descriptors = true;
  const std::string text = recorded("capacity_forward.log");
  bench.write(text);
  bench.run(20s);
  CHECK(bench.rows.empty());
  CHECK(bench.worker->trouble().find("no descriptors are left") != std::string::npos);
  CHECK(bench.worker->counts().errors > 2);
  CHECK(bench.worker->counts().errors < 20);                         // not in every pass
  bench.files.out_of_descriptors = false;
  bench.run(16s, false);
  CHECK(bench.rows[0].offset == text.size());
  CHECK(bench.kind(0) == "gpu.oom.capacity");
  CHECK(bench.worker->trouble().empty());
}

TEST_CASE("worker: a dump for which no descriptor is free is read when there is one, once") {
  Bench bench;
  const std::string dump = bench.folder.path() + "/rank0.pickle.gz";
  std::filesystem::copy_file(TRIAGE_SOURCE_DIR "/tests/snapshots/capacity_forward.pickle.gz", dump);
  bench.files.out_of_descriptors = true;
  daemon::FoundFile file;
  file.path = file.source.name = dump;
  file.kind = daemon::FoundFile::Kind::dump;
  bench.worker->follow(file);
  bench.run(3s, false);
  CHECK(bench.told == 0);
  bench.files.out_of_descriptors = false;
  bench.run(3s, false);
  CHECK(bench.told == 1);
  CHECK(bench.rows[0].name == dump);
  CHECK(bench.rows[0].kind == "dump");
  CHECK(bench.rows[0].offset == std::filesystem::file_size(dump));
  bench.worker->follow(file);
  bench.run(3s, false);
  CHECK(bench.told == 1);
}

TEST_CASE("worker: a clock that is set back a day does not keep checkpoints waiting for a day") {
  Bench bench;
  bench.write("starting\n");
  bench.run();
  bench.now -= 24h;
  const int before = bench.told;
  bench.write("waiting for the first batch\n");
  bench.run(5s);
  CHECK(bench.told > before);
  CHECK(bench.rows[0].offset == 37);
}

TEST_CASE("worker: a file that was let go of and fails again later tells of it") {
  Bench bench;
  bench.write(recorded("capacity_forward.log"));
  bench.run();
  REQUIRE(bench.telling[0] > 0);
  const std::uint64_t before = bench.telling[0];
  bench.worker->keep_only([](const std::string&) { return false; });
  bench.run(1s);
  daemon::FoundFile file;
  file.path = file.source.name = bench.path;
  bench.worker->follow(file);
  bench.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 537.12 MiB is free.\n");
  bench.run();
  CHECK(bench.telling[0] == before + 1);
}

TEST_CASE("worker: a rotated file that is packed is read from where it was left, also when it was found while it was being packed") {
  const std::string text = recorded("capacity_forward.log");
  const std::size_t half = text.rfind('\n', text.size() / 2) + 1;
  const std::string packed = tests::gzipped(text);
  for (const bool whole : {true, false}) {
    CAPTURE(whole);
    const tests::TempFolder folder;
    const std::string plain = folder.path() + "/rank0.log", path = plain + ".1.gz";
    daemon::PosixFileSystem files;
    TimePoint now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    daemon::NewsQueue queue{1000};
    std::map<std::string, db::WatchedRow> rows;
    std::map<std::string, std::uint64_t> first;    // offset of the first line that was kept of a source
    daemon::WorkerOptions options;
    options.default_year = 2026;
    daemon::Worker worker(
        tests::knowledge(), files, queue,
        [&](const std::string& name) -> parsers::Result<std::optional<db::WatchedRow>> { return rows.contains(name) ? std::optional(rows[name]) : std::nullopt; },
        [](const std::string&, std::uint64_t) { return std::vector<daemon::SpoolLine>(); }, [&] { return now; }, std::move(options));
    const auto run = [&](std::chrono::milliseconds time) {
      for (const TimePoint end = now + time; now < end; now += 100ms) {
        (void)worker.pass();
        for (auto& portion : queue.take(0ms))
          for (SourceNews& news : portion) {
            rows[news.row.name] = news.row;
            for (const daemon::SpoolLine& line : news.spool) first.try_emplace(news.row.name, line.offset);
            if (news.committed) news.committed(true);
          }
      }
    };
    daemon::FoundFile file;
    file.path = file.source.name = plain;
    std::ofstream(plain, std::ios::binary) << text.substr(0, half);
    worker.follow(file);
    run(3s);
    REQUIRE(rows[plain].offset == half);
    std::filesystem::remove(plain);
    std::ofstream(path, std::ios::binary) << (whole ? packed : packed.substr(0, packed.size() / 2));
    file.path = file.source.name = path;
    file.kind = daemon::FoundFile::Kind::packed;
    worker.follow(file);
    run(3s);
    if (!whole) {
      CHECK_FALSE(rows.contains(path));
      CHECK(worker.trouble().empty());             // packing takes its time
      std::ofstream(path, std::ios::binary) << packed;
      run(10s);
    }
    CHECK(rows[path].offset == text.size());
    REQUIRE(first.contains(path));
    CHECK(first[path] >= half);
  }
}
