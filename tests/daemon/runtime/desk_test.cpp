// The desk over a real store: incidents open once, sharpen, close, and outlive a restart.
#include "daemon/runtime/desk.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/http/json_view.hpp"
#include "db/query.hpp"
#include "tests/support/scan.hpp"
#include "tests/support/secret_samples.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage;
using daemon::Desk;
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

// A source that is fed piece by piece, as a worker does it.
struct Feeder {
  explicit Feeder(signatures::SourceInfo what) : info(std::move(what)), stream(tests::knowledge(), info, 2026, &spool) {}

  SourceNews take(std::string_view bytes) {
    stream.feed(bytes, true);
    offset += bytes.size();
    SourceNews news;
    news.row.name = info.name;
    news.row.offset = news.row.size = offset;
    news.info = info;
    news.spool = spool.take();
    news.tail = stream.intake().tail();
    news.telling = stream.intake().telling() - std::exchange(telling, stream.intake().telling());
    if (const auto progress = stream.intake().last_progress()) news.step = progress->iteration;
    return news;
  }

  daemon::Spool spool;
  signatures::SourceInfo info;
  daemon::IntakeStream stream;
  std::uint64_t offset = 0, telling = 0;
};

signatures::SourceInfo rank_log(const std::string& job, int rank, int attempt = 1) {
  signatures::SourceInfo info;
  info.name = "/logs/" + job + "/" + std::to_string(attempt) + "/rank" + std::to_string(rank) + ".log";
  info.job = job;
  info.rank = rank;
  info.attempt = attempt;
  return info;
}

struct Bench {
  explicit Bench(const std::string& path, daemon::DeskOptions options = {}) : store(db::LiveStore::open(path).value()), desk(make(std::move(options))) {}

  Desk make(daemon::DeskOptions options) {
    options.default_year = 2026;
    return Desk(tests::knowledge(), store, options, [](const daemon::IncidentChange&, TimePoint) { return daemon::OutboxPlan{}; },
                [this](const daemon::IncidentChange& change) { events.push_back(change.event + " " + change.tracked.id); },
                [this](const signatures::SourceInfo& dump) { asked.push_back(dump.name); });
  }
  void take(SourceNews news) {
    std::vector<SourceNews> all;
    all.push_back(std::move(news));
    REQUIRE(desk.take(std::move(all), now).ok());
  }
  void wait(std::chrono::milliseconds time) {
    for (const TimePoint end = now + time; now < end;) {
      now += 100ms;
      REQUIRE(desk.take({}, now).ok());
    }
  }

  TimePoint now = tests::fixed_now();
  db::LiveStore store;
  std::vector<std::string> events, asked;         // asked: dumps to be read again
  Desk desk;
};

std::string kind_of(const std::string& database) {
  auto query = db::Query::open(database);
  REQUIRE(query.ok());
  auto page = query->incidents({});
  REQUIRE(page.ok());
  REQUIRE(page->rows.size() == 1);
  return page->rows.front().kind;
}

}  // namespace

TEST_CASE("an incident opens with its root, closes when the job is quiet, and is told once") {
  const tests::TempFolder folder;
  const std::string database = folder.path() + "/triaged.db";
  Bench bench(database);
  const std::string text = recorded("capacity_forward.log");
  Feeder feeder(rank_log("llama", 0));
  for (std::size_t at = 0; at < text.size(); at += 1000) {
    bench.take(feeder.take(std::string_view(text).substr(at, 1000)));
    bench.now += 20ms;
  }
  bench.wait(3s);
  REQUIRE(bench.events.size() >= 1);
  CHECK(bench.events.front().starts_with("opened "));
  CHECK(kind_of(database) == "gpu.oom.capacity");
  bench.wait(70s);
  CHECK(bench.events.back().starts_with("closed "));
  CHECK(std::count_if(bench.events.begin(), bench.events.end(), [](const auto& e) { return e.starts_with("opened"); }) == 1);
  CHECK(std::count_if(bench.events.begin(), bench.events.end(), [](const auto& e) { return e.starts_with("closed"); }) == 1);
  CHECK(bench.desk.open_incidents() == 0);
  CHECK_FALSE(bench.desk.holds_unstored());
}

TEST_CASE("the answer of the service is the answer of a scan") {
  for (const char* name : {"capacity_forward.log", "fragmentation.log", "other_process.log", "optimizer_first_step.log"}) {
    CAPTURE(name);
    const tests::TempFolder folder;
    const std::string database = folder.path() + "/triaged.db";
    Bench bench(database);
    const std::string text = recorded(name);
    signatures::SourceInfo info;
    info.name = name;
    Feeder feeder(info);
    bench.take(feeder.take(text));
    bench.wait(70s);
    const daemon::Answer scan = tests::scan_text(text, 0, name);
    REQUIRE(scan.incidents.size() == 1);
    auto query = db::Query::open(database);
    REQUIRE(query.ok());
    auto page = query->incidents({});
    REQUIRE(page.ok());
    REQUIRE(page->rows.size() == 1);
    const auto kept = query->find(page->rows.front().id);
    REQUIRE(kept.ok());
    daemon::JudgedIncident incident = scan.incidents.front();
    if (incident.diagnosis.job.empty()) incident.diagnosis.job = name;
    CHECK(kept->answer == daemon::json_text(daemon::incident_json(incident), -1));
  }
}

TEST_CASE("a healthy job gives nothing") {
  const tests::TempFolder folder;
  Bench bench(folder.path() + "/triaged.db");
  Feeder feeder(rank_log("well", 0));
  bench.take(feeder.take(recorded("ok_train.log")));
  bench.wait(70s);
  CHECK(bench.events.empty());
}

TEST_CASE("a restart in the middle doubles nothing and loses nothing") {
  const std::string text = recorded("capacity_forward.log");
  for (std::size_t cut = 500; cut < text.size(); cut += text.size() / 7) {
    CAPTURE(cut);
    const tests::TempFolder folder;
    const std::string database = folder.path() + "/triaged.db";
    std::size_t line = text.rfind('\n', cut);
    line = line == std::string::npos ? 0 : line + 1;
    {
      Bench bench(database);
      Feeder feeder(rank_log("llama", 0));
      bench.take(feeder.take(std::string_view(text).substr(0, line)));
    }
    Bench bench(database);
    REQUIRE(bench.desk.restore(bench.now).ok());
    Feeder feeder(rank_log("llama", 0));
    SourceNews before = feeder.take(std::string_view(text).substr(0, line));   // a worker brings its Intake back out of the spool
    SourceNews after = feeder.take(std::string_view(text).substr(line));
    bench.take(std::move(after));
    bench.wait(70s);
    CHECK(kind_of(database) == "gpu.oom.capacity");
    CHECK(bench.desk.open_incidents() == 0);
  }
}

TEST_CASE("a later attempt that passes the failing step with another configuration confirms the fix") {
  const tests::TempFolder folder;
  const std::string database = folder.path() + "/triaged.db";
  Bench bench(database);
  Feeder first(rank_log("megatron", 0, 1));
  bench.take(first.take(recorded("megatron-oom-dense-forward.log")));
  bench.wait(70s);
  REQUIRE(bench.desk.open_incidents() == 0);
  bench.events.clear();
  std::string healthy = recorded("megatron-healthy.log");
  Feeder second(rank_log("megatron", 0, 2));
  bench.take(second.take(healthy));
  bench.wait(5s);
  CHECK(std::count_if(bench.events.begin(), bench.events.end(), [](const auto& e) { return e.starts_with("next_run"); }) <= 1);
}

namespace {

std::size_t count(const std::vector<std::string>& events, std::string_view begin) {
  return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [&](const std::string& event) { return event.starts_with(begin); }));
}

}  // namespace

TEST_CASE("late lines find the incident that is closed: after a restart, and after the job was let go of") {
  const std::string text = recorded("capacity_forward.log");
  for (const bool restart : {true, false}) {
    CAPTURE(restart);
    const tests::TempFolder folder;
    const std::string database = folder.path() + "/triaged.db";
    auto bench = std::make_unique<Bench>(database);
    Feeder feeder(rank_log("llama", 0));
    bench->take(feeder.take(text));
    bench->wait(70s);
    REQUIRE(count(bench->events, "closed") == 1);
    TimePoint now = bench->now;
    if (restart) {
      bench = std::make_unique<Bench>(database);
      bench->now = now + 60s;
      REQUIRE(bench->desk.restore(bench->now).ok());
    } else {
      bench->now += 30h;
      REQUIRE(bench->desk.take({}, bench->now).ok());
      CHECK(bench->desk.sources() == 0);
      bench->events.clear();
    }
    bench->take(feeder.take("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 537.12 MiB is free.\n"));
    bench->wait(70s);
    CHECK(count(bench->events, "opened") == 0);
    CHECK(bench->desk.open_incidents() == 0);
    auto query = db::Query::open(database);
    REQUIRE(query.ok());
    CHECK(query->incidents({})->rows.size() == 1);
  }
}

TEST_CASE("a later attempt is compared with an earlier one that only the store knows, and told once") {
  const tests::TempFolder folder;
  const std::string database = folder.path() + "/triaged.db";
  const std::string failing = recorded("megatron-oom-dense-forward.log");
  {
    Bench bench(database);
    Feeder first(rank_log("megatron", 0, 1));
    bench.take(first.take(failing));
    bench.wait(70s);
  }
  // The same run with another micro batch, far past every step that the first one reached.
  std::string healthy = failing.substr(0, failing.find("Traceback"));
  const std::string key = "\n  micro_batch_size";
  const std::size_t at = healthy.find(key);
  REQUIRE(at != std::string::npos);
  const std::size_t end = healthy.find('\n', at + 1);
  const std::size_t digits = healthy.find_last_not_of("0123456789", end - 1) + 1;
  healthy.replace(digits, end - digits, "1");
  healthy += " iteration     9000/    9999 | consumed samples:        72000 | elapsed time per iteration (ms): 800.0 | lm loss: 2.3E+00 |\n";
  for (const int expected : {1, 0}) {   // the second service knows that it was told
    CAPTURE(expected);
    Bench bench(database);
    REQUIRE(bench.desk.restore(bench.now).ok());
    Feeder second(rank_log("megatron", 0, 2));
    bench.take(second.take(healthy));
    bench.wait(5s);
    CHECK(count(bench.events, "next_run") == static_cast<std::size_t>(expected));
  }
}

TEST_CASE("a clock that is set back a day neither keeps an incident open nor a failure unjudged") {
  const tests::TempFolder folder;
  const std::string database = folder.path() + "/triaged.db";
  Bench bench(database);
  Feeder first(rank_log("llama", 0));
  bench.take(first.take(recorded("capacity_forward.log")));
  bench.wait(500ms);
  REQUIRE(bench.desk.open_incidents() == 1);
  bench.now -= 24h;
  bench.wait(70s);
  CHECK(bench.desk.open_incidents() == 0);
  CHECK(bench.events.back().starts_with("closed "));
  bench.now -= 24h;
  Feeder second(rank_log("gpt", 0));
  bench.take(second.take(recorded("fragmentation.log")));
  bench.wait(70s);
  CHECK(std::count_if(bench.events.begin(), bench.events.end(), [](const auto& e) { return e.starts_with("opened"); }) == 2);
  CHECK(std::count_if(bench.events.begin(), bench.events.end(), [](const auto& e) { return e.starts_with("closed"); }) == 2);
}

TEST_CASE("lines of a file that a worker had let go of count as new") {
  const tests::TempFolder folder;
  Bench bench(folder.path() + "/triaged.db");
  Feeder feeder(rank_log("llama", 0));
  bench.take(feeder.take("starting\n"));
  SourceNews one = feeder.take("");
  one.telling = 3;
  bench.take(std::move(one));
  bench.wait(5s);
  SourceNews again = feeder.take("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 537.12 MiB is free.\n");
  again.telling = 1;                               // its worker counts from the beginning
  bench.take(std::move(again));
  bench.wait(2s);
  CHECK(count(bench.events, "opened") == 1);
}

TEST_CASE("a judgement after a restart waits for the dumps of the job, which others read") {
  const std::string text = recorded("capacity_forward.log");
  const auto dump_of = [] {
    signatures::SourceInfo info = rank_log("llama", 0);
    info.name = "/logs/llama/1/oom.pickle";
    info.dump = true;
    return info;
  };
  const auto news_of = [&](bool again) {
    SourceNews news;
    news.info = dump_of();
    news.row.name = news.info.name;
    news.row.kind = "dump";
    news.again = again;
    news.dump = signatures::SourceFindings{};
    news.dump->source = news.info;
    return news;
  };
  for (const bool comes : {true, false}) {
    CAPTURE(comes);
    const tests::TempFolder folder;
    const std::string database = folder.path() + "/triaged.db";
    {
      Bench bench(database);
      Feeder feeder(rank_log("llama", 0));
      bench.take(feeder.take(text));
      bench.take(news_of(false));
      bench.wait(3s);
      REQUIRE(bench.desk.open_incidents() == 1);
      CHECK(bench.asked.empty());
    }
    Bench bench(database);
    bench.now += 60s;
    REQUIRE(bench.desk.restore(bench.now).ok());
    bench.wait(120s);
    CHECK(bench.asked == std::vector<std::string>{"/logs/llama/1/oom.pickle"});   // once
    CHECK(bench.desk.open_incidents() == 1);       // it would close without what the dump says
    if (comes)
      bench.take(news_of(true));
    else
      bench.wait(10min);                           // a file server that never answers does not keep it open
    bench.wait(2s);
    CHECK(bench.desk.open_incidents() == 0);
    CHECK(count(bench.events, "opened") == 0);
  }
}

TEST_CASE("a turn costs nothing for the jobs that are not due") {
  const tests::TempFolder folder;
  Bench bench(folder.path() + "/triaged.db");
  std::vector<SourceNews> all;
  for (int job = 0; job < 10'000; ++job) {
    SourceNews news;
    news.info = rank_log("job" + std::to_string(job), 0);
    news.row.name = news.info.name;
    all.push_back(std::move(news));
  }
  REQUIRE(bench.desk.take(std::move(all), bench.now).ok());
  REQUIRE(bench.desk.sources() == 10'000);
  const std::clock_t begin = std::clock();
  for (int turn = 0; turn < 5'000; ++turn) {
    bench.now += 1ms;
    REQUIRE(bench.desk.take({}, bench.now).ok());
    CHECK_FALSE(bench.desk.next_due().has_value());
  }
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.5);   // seconds of this process; with a walk over all jobs 2 and more
}

TEST_CASE("where that is wanted, no secret of the list gets into the database, and the diagnosis stays") {
  auto samples = tests::alerting::secret_samples();
  std::erase_if(samples, [](const auto& sample) { return sample.text.find('\n') != std::string::npos; });   // limit: over more than one line
  std::size_t bare = 0;
  for (const bool masked : {true, false}) {
    const tests::TempFolder folder;
    const std::string database = folder.path() + "/triaged.db";
    {
      daemon::DeskOptions options;
      if (masked) options.mask.emplace();
      Bench bench(database, std::move(options));
      int rank = 0;
      for (const auto& sample : samples) {
        Feeder feeder(rank_log("job" + std::to_string(rank), rank));
        ++rank;
        bench.take(feeder.take("before " + sample.text + "\nTraceback (most recent call last):\n  File \"/srv/train.py\", line 7, in <module>\n    step()\n"
                               "RuntimeError: CUDA error: an illegal memory access was encountered, " + sample.text + "\n"));
      }
      bench.wait(70s);
      CHECK(std::count_if(bench.events.begin(), bench.events.end(), [](const auto& e) { return e.starts_with("closed"); }) == rank);
    }
    std::string kept;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      std::ifstream in(file.path(), std::ios::binary);
      kept.append(std::istreambuf_iterator<char>(in), {});
    }
    CHECK(kept.find("an illegal memory access was encountered") != std::string::npos);
    for (const auto& sample : samples) {
      CAPTURE(sample.text);
      const bool found = kept.find(sample.hidden) != std::string::npos;
      if (masked) CHECK_FALSE(found);
      else bare += found;
    }
  }
  CHECK(bare > 80);                               // without it they do stand there
}

TEST_CASE("masked or not, an incident of a log in a home folder is known again after a restart") {
  for (const bool masked : {false, true}) {
    CAPTURE(masked);
    const tests::TempFolder folder;
    daemon::DeskOptions options;
    if (masked) options.mask.emplace();
    signatures::SourceInfo info = rank_log("llama", 0);
    info.name = "/home/alice" + info.name;
    {
      Bench bench(folder.path() + "/triaged.db", options);
      Feeder feeder(info);
      bench.take(feeder.take(recorded("capacity_forward.log")));
      bench.wait(3s);
      REQUIRE(bench.events.size() == 1);
    }
    Bench bench(folder.path() + "/triaged.db", options);
    bench.now += 5s;
    REQUIRE(bench.desk.restore(bench.now).ok());
    bench.wait(70s);
    REQUIRE(bench.events.size() == 1);
    CHECK(bench.events.front().starts_with("closed "));
  }
}
