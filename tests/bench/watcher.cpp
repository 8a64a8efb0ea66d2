// Watching ten thousand idle files: processor time and memory while nothing happens, time from a file's creation to its discovery, and a
// restart with all of them known. By inotify, and polled as on a network file system.
// usage: watcher_bench [--floor] [--files N] [--seconds N]     --floor: exit status 1 beyond the limits that are printed
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/tail/discovery.hpp"
#include "daemon/tail/posix_file_system.hpp"
#include "daemon/tail/tailer.hpp"
#include "daemon/tail/waiter.hpp"
#include "daemon/tail/watcher.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;
using triage::parsers::TimePoint;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

double processor_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  std::ifstream in("/proc/self/statm");
  long all = 0, resident = 0;
  in >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double ms_since(Clock::time_point from) { return std::chrono::duration<double, std::milli>(Clock::now() - from).count(); }

TimePoint wall() { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }

// What the finding thread of the service does.
class Finder {
 public:
  Finder(FileSystem& files, const std::string& pattern, bool poll_only)
      : watcher_(files, options(poll_only), Clock::now()),
        discovery_(files, {{*JobTemplate::parse(pattern), FoundFile::Kind::log, "", {}}}, discovery_options()) {}

  void scan() {
    for (const FoundFile& file : discovery_.scan()) take(file);
  }
  // Calls found(path, when) for each new file, until the time is over.
  void run(Clock::time_point until, const std::function<void(const std::string&)>& found) {
    while (Clock::now() < until) {
      const int fds[] = {watcher_.fd()};
      waiter_.wait(fds, std::chrono::ceil<milliseconds>(std::min(watcher_.next(), until) - Clock::now()));
      for (const WatchEvent& event : watcher_.read(Clock::now())) {
        std::vector<FoundFile> files;
        if (event.what == WatchEvent::What::appeared) files = discovery_.look(event.folder, event.name);
        if (event.what == WatchEvent::What::folder) files = discovery_.look(event.folder);
        if (event.what == WatchEvent::What::everything) files = discovery_.scan();
        for (const FoundFile& file : files)
          if (take(file)) found(file.path);
      }
    }
  }
  std::size_t known() const { return known_.size(); }
  const std::unordered_set<std::string>& paths() const { return known_; }
  const WatchCounts& counts() const { return watcher_.counts(); }

 private:
  static WatchOptions options(bool poll_only) {
    WatchOptions out;
    out.poll_only = poll_only;
    return out;
  }
  DiscoveryOptions discovery_options() {
    DiscoveryOptions out;
    out.watch = [this](const std::string& folder) { watcher_.watch_folder(folder, Clock::now()); };
    return out;
  }
  bool take(const FoundFile& file) {
    if (!known_.insert(file.path).second) return false;
    watcher_.watch_file(file.path, file.link, Clock::now());
    return true;
  }
  Watcher watcher_;
  Discovery discovery_;
  Waiter waiter_;
  std::unordered_set<std::string> known_;
};

struct Limits {
  double processor_percent, discovery_ms;
};

bool measure(const char* name, const triage::tests::TempFolder& folder, std::size_t count, int seconds, bool poll_only, const Limits& limits) {
  PosixFileSystem files;
  const double memory_before = resident_mib();
  auto from = Clock::now();
  Finder finder(files, folder.path() + "/{job}/{node}/rank{rank}.log", poll_only);
  finder.scan();
  const double scan_ms = ms_since(from);
  finder.run(Clock::now() + std::chrono::seconds(2), [](const std::string&) {});   // the first second polls everything once more
  const double before = processor_s();
  from = Clock::now();
  finder.run(from + std::chrono::seconds(seconds), [](const std::string&) {});
  const double percent = (processor_s() - before) / (ms_since(from) / 1000) * 100;
  const double memory = resident_mib() - memory_before;

  std::mutex lock;
  std::unordered_map<std::string, Clock::time_point> created;
  std::vector<double> late_ms;
  std::thread maker([&] {
    for (int i = 0; i < 200; ++i) {
      const std::string path = (poll_only ? "/job3/node4/rank8" : "/job3/node4/rank9") + std::to_string(1000 + i) + ".log";
      {
        const std::lock_guard guard(lock);
        created[folder.path() + path] = Clock::now();
      }
      folder.append(path.substr(1), "step 1\n");
      std::this_thread::sleep_for(milliseconds(7 + i % 11));
    }
  });
  finder.run(Clock::now() + std::chrono::seconds(5), [&](const std::string& path) {
    const std::lock_guard guard(lock);
    if (const auto it = created.find(path); it != created.end()) late_ms.push_back(ms_since(it->second));
  });
  maker.join();
  std::sort(late_ms.begin(), late_ms.end());
  const double median = late_ms.empty() ? 1e9 : late_ms[late_ms.size() / 2], most = late_ms.empty() ? 1e9 : late_ms.back();
  std::printf("%-8s %zu files: first scan %.0f ms, idle %.2f %% of a core (limit %.1f), %.1f MiB, %zu watches, %zu polled; found after median %.1f ms, at most %.1f ms (limit %.0f), %zu of 200\n", name, count,
              scan_ms, percent, limits.processor_percent, memory, finder.counts().watches, finder.counts().polled_files, median, most, limits.discovery_ms, late_ms.size());
  return percent <= limits.processor_percent && most <= limits.discovery_ms && late_ms.size() == 200 && finder.known() >= count;
}

// Tailers with the checkpoints of an earlier run: all looked at once.
bool restart(const triage::tests::TempFolder& folder, std::size_t count, double limit_ms) {
  PosixFileSystem files;
  std::vector<char> room(256 * 1024);
  std::vector<std::pair<std::string, Checkpoint>> known;
  {
    Finder finder(files, folder.path() + "/{job}/{node}/rank{rank}.log", false);
    finder.scan();
    for (const std::string& path : finder.paths()) {
      Tailer tailer(files, path, std::nullopt);
      for (int i = 0; i < 3; ++i) {
        const auto step = tailer.step(room, wall());
        if (!step.ok() || step->what == TailStep::What::idle) break;
      }
      known.emplace_back(path, tailer.checkpoint());
    }
  }
  const double memory_before = resident_mib();
  const auto from = Clock::now();
  Finder finder(files, folder.path() + "/{job}/{node}/rank{rank}.log", false);
  finder.scan();
  std::vector<std::unique_ptr<Tailer>> tailers;
  tailers.reserve(known.size());
  std::size_t idle = 0;
  for (const auto& [path, checkpoint] : known) {
    tailers.push_back(std::make_unique<Tailer>(files, path, checkpoint));
    const auto step = tailers.back()->step(room, wall());
    idle += step.ok() && step->what == TailStep::What::idle;
    tailers.back()->rest();
  }
  const double took = ms_since(from);
  std::printf("restart  %zu known files: watching and verified after %.0f ms (limit %.0f), %zu as they were, %.1f MiB for watcher and tailers, %zu descriptors\n", known.size(), took, limit_ms, idle,
              resident_mib() - memory_before, files.open_descriptors());
  return took <= limit_ms && idle == known.size() && known.size() >= count;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 10'000;
  int seconds = 10;
  bool floor = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--floor") floor = true;
    if (argument == "--files" && i + 1 < argc) count = static_cast<std::size_t>(std::atol(argv[++i]));
    if (argument == "--seconds" && i + 1 < argc) seconds = std::atoi(argv[++i]);
  }
  const triage::tests::TempFolder folder;
  for (std::size_t i = 0; i < count; ++i) {   // 10 jobs of 10 nodes
    const std::string place = "job" + std::to_string(i % 10) + "/node" + std::to_string(i / 10 % 10);
    if (i < 100) std::filesystem::create_directories(folder / place);
    folder.append(place + "/rank" + std::to_string(i / 100) + ".log", "iteration 1/100 | loss 2.5\niteration 2/100 | loss 2.4\n");
  }
  bool good = measure("inotify", folder, count, seconds, false, {1.0, 1000});
  good = measure("polled", folder, count, seconds, true, {10.0, 2000}) && good;
  good = restart(folder, count, 2000) && good;
  return floor && !good ? 1 : 0;
}
