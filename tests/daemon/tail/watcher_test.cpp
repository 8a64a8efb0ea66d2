#include "daemon/tail/watcher.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "daemon/tail/posix_file_system.hpp"
#include "daemon/tail/waiter.hpp"
#include "tests/support/fake_file_system.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;
using triage::tests::TempFolder;
using What = WatchEvent::What;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

const Watcher::Time kStart{std::chrono::hours(1000)};

bool has(const std::vector<WatchEvent>& events, What what, const std::string& path) {
  return std::any_of(events.begin(), events.end(), [&](const WatchEvent& event) { return event.what == what && (event.name.empty() ? event.folder : event.path()) == path; });
}

// The soft limit of descriptors, for as long as this lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = count;
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

rlim_t next_descriptor() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(fd);
  return static_cast<rlim_t>(fd);
}

}  // namespace

TEST_CASE("inotify tells what comes, grows, is renamed and goes, and each file once a read") {
  const TempFolder folder;
  PosixFileSystem files;
  Watcher watcher(files, {}, kStart);
  watcher.watch_folder(folder.path(), kStart);
  watcher.watch_folder(folder.path(), kStart);
  CHECK(watcher.counts().watches == 1);
  CHECK(watcher.read(kStart).empty());
  folder.append("a.log", "one\n");
  watcher.watch_file(folder / "a.log", false, kStart);
  CHECK(watcher.counts().watches == 1);      // its folder's
  auto events = watcher.read(kStart);
  CHECK(has(events, What::appeared, folder / "a.log"));
  for (int i = 0; i < 5; ++i) folder.append("a.log", "more\n");
  events = watcher.read(kStart);
  REQUIRE(events.size() == 1);
  CHECK(events[0] == WatchEvent{What::changed, folder.path(), "a.log", true});
  std::filesystem::rename(folder / "a.log", folder / "a.log.1");
  events = watcher.read(kStart);
  CHECK(has(events, What::changed, folder / "a.log"));
  CHECK(has(events, What::appeared, folder / "a.log.1"));
  std::filesystem::remove(folder / "a.log.1");
  CHECK(has(watcher.read(kStart), What::changed, folder / "a.log.1"));
  std::filesystem::create_directory(folder / "job");
  CHECK(has(watcher.read(kStart), What::appeared, folder / "job"));
  CHECK(watcher.counts().degraded.empty());
}

TEST_CASE("a folder that is deleted and made again is told by the one above; one that is moved takes its watches along") {
  const TempFolder folder;
  PosixFileSystem files;
  Watcher watcher(files, {}, kStart);
  std::filesystem::create_directories(folder / "job/1");
  for (const char* name : {"job", "job/1"}) watcher.watch_folder(folder / name, kStart);
  watcher.watch_folder(folder.path(), kStart);
  std::filesystem::remove(folder / "job/1");
  auto events = watcher.read(kStart);
  CHECK(!has(events, What::everything, ""));
  CHECK(watcher.counts().watches == 2);
  std::filesystem::create_directory(folder / "job/1");
  CHECK(has(watcher.read(kStart), What::appeared, folder / "job/1"));
  watcher.watch_folder(folder / "job/1", kStart);
  folder.append("job/1/x", "x");
  CHECK(has(watcher.read(kStart), What::appeared, folder / "job/1/x"));
  std::filesystem::rename(folder / "job", folder / "old");
  events = watcher.read(kStart);
  CHECK(has(events, What::everything, ""));
  CHECK(has(events, What::appeared, folder / "old"));
  CHECK(watcher.counts().watches == 1);
  folder.append("old/1/x", "x");
  CHECK(watcher.read(kStart).empty());       // not under a name that it no longer has
}

TEST_CASE("two names of one folder both tell") {
  const TempFolder folder;
  PosixFileSystem files;
  Watcher watcher(files, {}, kStart);
  std::filesystem::create_directory(folder / "job");
  std::filesystem::create_directory_symlink(folder / "job", folder / "latest");
  watcher.watch_folder(folder / "job", kStart);
  watcher.watch_folder(folder / "latest", kStart);
  folder.append("job/x", "x");
  const auto events = watcher.read(kStart);
  CHECK(has(events, What::appeared, folder / "job/x"));
  CHECK(has(events, What::appeared, folder / "latest/x"));
}

TEST_CASE("a link's file is watched where it lies, and polled while it is missing") {
  const TempFolder folder, away;
  PosixFileSystem files;
  Watcher watcher(files, {}, kStart);
  away.append("real.log", "one\n");
  std::filesystem::create_symlink(away / "real.log", folder / "a.log");
  watcher.watch_folder(folder.path(), kStart);
  watcher.watch_file(folder / "a.log", true, kStart);
  away.append("real.log", "two\n");
  CHECK(has(watcher.read(kStart), What::changed, folder / "a.log"));
  std::filesystem::rename(away / "real.log", away / "real.log.1");
  CHECK(has(watcher.read(kStart), What::changed, folder / "a.log"));
  away.append("real.log", "new\n");
  CHECK(has(watcher.read(kStart + seconds(2)), What::changed, folder / "a.log"));
  CHECK(has(watcher.read(kStart + seconds(40)), What::changed, folder / "a.log"));
  CHECK(watcher.counts().polled_files == 0);
  away.append("real.log", "more\n");
  CHECK(has(watcher.read(kStart + seconds(40)), What::changed, folder / "a.log"));
  watcher.forget_file(folder / "a.log");
  CHECK(watcher.counts().watches == 1);
}

TEST_CASE("without watches folders and files are polled, that is told, and ends when there are some again") {
  const TempFolder folder;
  PosixFileSystem files;
  for (const char* name : {"a", "b"}) std::filesystem::create_directory(folder / name);
  WatchOptions options;
  options.watches = 1;
  Watcher watcher(files, options, kStart);
  folder.append("b/old.log", "1\n");
  watcher.watch_folder(folder / "a", kStart);
  watcher.watch_folder(folder / "b", kStart);
  watcher.watch_file(folder / "b/old.log", false, kStart);
  CHECK(watcher.counts().polled_folders == 1);
  CHECK(watcher.counts().polled_files == 1);
  CHECK(watcher.counts().degraded.find("max_user_watches") != std::string::npos);
  CHECK(watcher.next() <= kStart + seconds(1));
  (void)watcher.read(kStart + seconds(1));
  CHECK(watcher.read(kStart + seconds(2)).empty());
  folder.append("b/new.log", "x\n");
  folder.append("b/old.log", "2\n");
  auto events = watcher.read(kStart + seconds(3));
  CHECK(has(events, What::folder, folder / "b"));
  CHECK(has(events, What::changed, folder / "b/old.log"));
  std::filesystem::remove(folder / "a");
  (void)watcher.read(kStart + seconds(4));
  events = watcher.read(kStart + seconds(40));
  CHECK(watcher.counts().polled_folders == 0);
  (void)watcher.read(kStart + seconds(42));
  CHECK(watcher.counts().polled_files == 0);
  CHECK(watcher.counts().degraded.empty());
  folder.append("b/old.log", "3\n");
  CHECK(has(watcher.read(kStart + seconds(42)), What::changed, folder / "b/old.log"));
}

TEST_CASE("without a descriptor for inotify everything is polled until there is one") {
  const TempFolder folder;
  PosixFileSystem files;
  std::optional<Watcher> watcher;
  {
    const FewDescriptors few(next_descriptor());
    watcher.emplace(files, WatchOptions{}, kStart);
    CHECK(watcher->fd() < 0);
    watcher->watch_folder(folder.path(), kStart);
    CHECK(watcher->counts().degraded.find("no inotify instance") != std::string::npos);
    (void)watcher->read(kStart + seconds(31));
    CHECK(watcher->fd() < 0);
    folder.path();
  }
  (void)watcher->read(kStart + seconds(62));
  (void)watcher->read(kStart + seconds(64));
  CHECK(watcher->fd() >= 0);
  CHECK(watcher->counts().watches == 1);
  CHECK(watcher->counts().degraded.empty());
  folder.append("a.log", "x\n");
  CHECK(has(watcher->read(kStart + seconds(64)), What::appeared, folder / "a.log"));
}

TEST_CASE("polled: a folder is told twice after a change, for its clock is coarse; a quiet file is asked less and less often") {
  triage::tests::FakeFileSystem files;
  files.write("/logs/a.log", "one\n");
  WatchOptions options;
  options.poll_only = true;
  Watcher watcher(files, options, kStart);
  watcher.watch_file("/logs/a.log", false, kStart);
  (void)watcher.read(kStart + seconds(1));
  files.now_ns += 2'000'000'000;
  files.write("/logs/a.log", "two\n");
  CHECK(has(watcher.read(kStart + seconds(2)), What::changed, "/logs/a.log"));
  const auto asked_in = [&](Watcher::Time from, seconds span) {
    const std::uint64_t before = files.infos;
    for (Watcher::Time at = from; at < from + span; at += milliseconds(500)) (void)watcher.read(at);
    return files.infos - before;
  };
  CHECK(asked_in(kStart + seconds(2), seconds(40)) >= 35);
  CHECK(asked_in(kStart + std::chrono::hours(2), seconds(100)) <= 12);
  files.remove("/logs/a.log");
  CHECK(has(watcher.read(kStart + std::chrono::hours(3)), What::changed, "/logs/a.log"));
  CHECK(watcher.counts().polled_files == 1);
  for (int minutes = 181; minutes < 200; ++minutes) (void)watcher.read(kStart + std::chrono::minutes(minutes));
  CHECK(watcher.counts().polled_files == 0);   // gone for long
}

TEST_CASE("more events than the kernel keeps are answered by a look at everything") {
  const TempFolder folder;
  PosixFileSystem files;
  Watcher watcher(files, {}, kStart);
  watcher.watch_folder(folder.path(), kStart);
  const int one = ::open((folder / "a").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), two = ::open((folder / "b").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  for (int i = 0; i < 40'000; ++i) REQUIRE(::write(i % 2 ? one : two, "x", 1) == 1);
  ::close(one);
  ::close(two);
  bool everything = false;
  for (int i = 0; i < 10 && !everything; ++i) everything = has(watcher.read(kStart), What::everything, "");
  CHECK(everything);
  CHECK(watcher.counts().overflows == 1);
}

TEST_CASE("a waiting thread is woken by a descriptor, by a call, and by time") {
  const TempFolder folder;
  PosixFileSystem files;
  Watcher watcher(files, {}, kStart);
  watcher.watch_folder(folder.path(), kStart);
  const Waiter waiter;
  const int fds[] = {watcher.fd(), -1};
  waiter.wait(fds, milliseconds(1));
  waiter.wake();
  waiter.wait(fds, seconds(60));             // at once
  folder.append("a.log", "x\n");
  waiter.wait(fds, seconds(60));
  CHECK(!watcher.read(kStart).empty());
  std::thread other([&] { waiter.wake(); });
  waiter.wait(fds, seconds(60));
  other.join();
}
