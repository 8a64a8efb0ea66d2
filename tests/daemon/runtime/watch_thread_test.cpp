// The finder over real files: what it says of folders that cannot be read and of files over the limit, while that is so and no longer.
#include "daemon/runtime/watch_thread.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <filesystem>
#include <set>

#include "daemon/tail/guarded_file_system.hpp"
#include "tests/support/real_files.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage;
using namespace triage::daemon;
using namespace std::chrono_literals;
using parsers::Result;

namespace {

// The real file system, with a folder that may not be listed (tests may run as root, for whom there are no permissions).
class Forbidding final : public tests::RealFiles {
 public:
  std::atomic<bool> forbids = false;
  Result<std::vector<FolderEntry>> list(const std::string& folder) override {
    if (forbids && folder.ends_with("/secret")) return parsers::Error(parsers::ErrorCode::io, "a folder cannot be listed").at(parsers::Place{folder, {}, {}, {}, {}});
    return RealFiles::list(folder);
  }
};

// A file server that answers nothing below /net until it goes on.
class Silent final : public tests::RealFiles {
 public:
  void stop() {
    const std::lock_guard guard(lock_);
    silent_ = true;
  }
  void go_on() {
    const std::lock_guard guard(lock_);
    silent_ = false;
    changed_.notify_all();
  }
  Result<FileInfo> info(const std::string& path, bool follow) override { return pass(path), RealFiles::info(path, follow); }
  Result<std::unique_ptr<OpenFile>> open(const std::string& path) override { return pass(path), RealFiles::open(path); }
  Result<std::vector<FolderEntry>> list(const std::string& folder) override { return pass(folder), RealFiles::list(folder); }

 private:
  void pass(const std::string& path) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return !silent_ || path.find("/net") == std::string::npos; });
  }
  std::mutex lock_;
  std::condition_variable changed_;
  bool silent_ = false;
};

struct Bench {
  explicit Bench(std::int64_t most = 1000) {
    SourceConfig config;
    config.files = most;
    WatchTarget target;
    target.follow = [this](const FoundFile& file, std::uint64_t) {
      const std::lock_guard guard(lock);
      followed.insert(file.path);
    };
    target.wake = [](const std::string&) {};
    std::vector<SourcePattern> patterns(1);
    patterns[0].form = JobTemplate::parse(folder.path() + "/*/*.log").value();
    finder = std::make_unique<WatchThread>(files, patterns, config, std::vector<std::string>(), std::move(target),
                                           [] { return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()); }, 50ms);
  }
  std::size_t count() {
    const std::lock_guard guard(lock);
    return followed.size();
  }
  template <class Condition>
  static bool comes_true(Condition condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    return condition();
  }

  tests::TempFolder folder;
  Forbidding files;
  std::mutex lock;
  std::set<std::string> followed;
  std::unique_ptr<WatchThread> finder;
};

}  // namespace

TEST_CASE("a folder that cannot be read is told as long as it cannot, and its files are found afterwards") {
  Bench bench;
  std::filesystem::create_directory(bench.folder / "secret");
  std::filesystem::create_directory(bench.folder / "open");
  bench.folder.append("secret/a.log", "one\n");
  bench.folder.append("open/b.log", "one\n");
  bench.files.forbids = true;
  bench.finder->start();
  CHECK(Bench::comes_true([&] { return bench.finder->state().faults.size() == 1 && bench.count() == 1; }));
  std::this_thread::sleep_for(300ms);              // some searches later
  CHECK(bench.finder->state().faults.size() == 1);
  bench.files.forbids = false;
  CHECK(Bench::comes_true([&] { return bench.finder->state().faults.empty() && bench.count() == 2; }));
}

TEST_CASE("files over the limit are told as long as they are over it, and found when there is room") {
  Bench bench(2);
  std::filesystem::create_directory(bench.folder / "a");
  for (const char* name : {"a/1.log", "a/2.log", "a/3.log"}) bench.folder.append(name, "one\n");
  bench.finder->start();
  CHECK(Bench::comes_true([&] { return bench.finder->state().faults.size() == 1 && bench.count() == 2; }));
  std::filesystem::remove(bench.folder / "a/1.log");
  CHECK(Bench::comes_true([&] { return bench.finder->state().faults.empty() && bench.count() == 3; }));
}

TEST_CASE("a file server that does not answer holds up no other file, and its files are found when it answers") {
  const tests::TempFolder folder;
  std::filesystem::create_directory(folder / "net");
  std::filesystem::create_directory(folder / "local");
  folder.append("net/a.log", "one\n");
  folder.append("local/b.log", "one\n");
  const auto server = std::make_shared<Silent>();
  GuardOptions options;
  options.patience = 20ms;
  GuardedFileSystem files(server, options, [](const std::string& path) { return path.find("/net") != std::string::npos ? std::string("/net") : std::string(); });
  server->stop();
  std::mutex lock;
  std::set<std::string> followed;
  const auto has = [&](const std::string& path) {
    const std::lock_guard guard(lock);
    return followed.contains(path);
  };
  WatchTarget target;
  target.follow = [&](const FoundFile& file, std::uint64_t) {
    const std::lock_guard guard(lock);
    followed.insert(file.path);
  };
  target.wake = [](const std::string&) {};
  std::vector<SourcePattern> patterns(2);
  patterns[0].form = JobTemplate::parse(folder.path() + "/net/*.log").value();
  patterns[1].form = JobTemplate::parse(folder.path() + "/local/*.log").value();
  SourceConfig config;
  config.poll = 100ms;
  WatchThread finder(files, patterns, config, {}, std::move(target), [] { return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now()); }, 100ms);
  finder.start();
  CHECK(Bench::comes_true([&] { return has(folder / "local/b.log"); }));
  folder.append("local/c.log", "one\n");
  CHECK(Bench::comes_true([&] { return has(folder / "local/c.log"); }));
  CHECK_FALSE(has(folder / "net/a.log"));
  CHECK(Bench::comes_true([&] { return !finder.state().faults.empty() && !files.stuck().empty(); }));
  server->go_on();
  CHECK(Bench::comes_true([&] { return has(folder / "net/a.log"); }));
  CHECK(Bench::comes_true([&] { return finder.state().faults.empty() && files.stuck().empty(); }));
  CHECK(finder.stop());
}
