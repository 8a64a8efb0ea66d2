#include "daemon/tail/guarded_file_system.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <thread>

#include "daemon/tail/mount_table.hpp"
#include "daemon/tail/tailer.hpp"
#include "tests/support/fake_file_system.hpp"

using namespace triage::daemon;
using triage::parsers::ErrorCode;
using triage::parsers::Result;
using triage::parsers::TimePoint;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// A file server that can be stopped: calls for one path, or all below /nfs, wait until it goes on.
class Stoppable final : public FileSystem {
 public:
  triage::tests::FakeFileSystem files;
  std::atomic<int> calls{0};

  void stop(std::string front) {
    const std::lock_guard lock(mutex_);
    stopped_ = std::move(front);
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    stopped_.clear();
    changed_.notify_all();
  }
  Result<FileInfo> info(const std::string& path, bool follow = true) override {
    const auto lock = pass(path);
    return files.info(path, follow);
  }
  Result<std::unique_ptr<OpenFile>> open(const std::string& path) override {
    const auto lock = pass(path);
    auto file = files.open(path);
    if (!file.ok()) return file;
    return std::unique_ptr<OpenFile>(std::make_unique<File>(*this, *std::move(file), path));
  }
  Result<std::vector<FolderEntry>> list(const std::string& folder) override {
    const auto lock = pass(folder);
    return files.list(folder);
  }
  Result<std::string> real_path(const std::string& path) override {
    const auto lock = pass(path);
    return files.real_path(path);
  }

 private:
  class File final : public OpenFile {
   public:
    File(Stoppable& owner, std::unique_ptr<OpenFile> file, std::string path) : owner_(owner), file_(std::move(file)), path_(std::move(path)) {}
    Result<FileInfo> info() override {
      const auto lock = owner_.pass(path_);
      return file_->info();
    }
    Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
      const auto lock = owner_.pass(path_);
      return file_->read(offset, room);
    }

   private:
    Stoppable& owner_;
    std::unique_ptr<OpenFile> file_;
    std::string path_;
  };

  std::unique_lock<std::mutex> pass(const std::string& path) {
    ++calls;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_.empty() || !path.starts_with(stopped_); });
    return lock;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stopped_;
};

struct Fixture {
  std::shared_ptr<Stoppable> server = std::make_shared<Stoppable>();
  std::unique_ptr<GuardedFileSystem> guarded;
  Fixture() {
    GuardOptions options;
    options.patience = milliseconds(30);
    options.stuck_calls = 3;
    guarded = std::make_unique<GuardedFileSystem>(server, options, [](const std::string& folder) { return folder.starts_with("/nfs") ? std::string("/nfs") : std::string(); });
    for (const char* const name : {"/nfs/a.log", "/nfs/b.log", "/nfs/c.log", "/nfs/d.log", "/nfs/e.log", "/local/a.log"}) server->files.write(name, "one\n");
    for (const char* const name : {"/nfs/a.log", "/local/a.log"}) REQUIRE(guarded->info(name).ok());   // where they lie is known
  }
  ~Fixture() { server->go_on(); }
  // Of the call, in milliseconds.
  template <class Call>
  static double took(Call call) {
    const auto from = Clock::now();
    call();
    return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  }
  bool wait_unstuck() const {
    for (int i = 0; i < 500 && !guarded->stuck().empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
    return guarded->stuck().empty();
  }
};

}  // namespace

TEST_CASE("one file that is stuck holds up neither the others of its server nor who asks again, and its answer is not lost") {
  Fixture f;
  f.server->stop("/nfs/b.log");
  CHECK(f.guarded->info("/nfs/b.log").error().code() == ErrorCode::limit);
  CHECK(f.guarded->info("/nfs/a.log").ok());
  CHECK(f.guarded->info("/local/a.log").ok());
  const int calls = f.server->calls;
  const double again = Fixture::took([&] { CHECK(f.guarded->info("/nfs/b.log").error().code() == ErrorCode::limit); });
  CHECK(again < 25);
  CHECK(f.server->calls == calls);           // no second call behind the first
  REQUIRE(f.guarded->stuck().size() == 1);
  CHECK(f.guarded->stuck()[0].mount == "/nfs");
  CHECK(f.guarded->stuck()[0].calls == 1);
  f.server->go_on();
  CHECK(f.wait_unstuck());
  CHECK(f.guarded->info("/nfs/b.log")->size == 4);
  CHECK(f.server->calls == calls);           // the answer that came late
}

TEST_CASE("a server that is gone is not asked more often than a few times at once; the local disk does not notice") {
  Fixture f;
  f.server->stop("/nfs");
  for (const char* const name : {"/nfs/a.log", "/nfs/b.log", "/nfs/c.log"}) CHECK_FALSE(f.guarded->info(name).ok());
  CHECK(Fixture::took([&] {
          for (int i = 0; i < 1000; ++i) CHECK(f.guarded->info("/nfs/d.log").error().code() == ErrorCode::limit);
        }) < 500);
  CHECK(f.guarded->stuck()[0].calls == 3);
  CHECK(f.guarded->list("/nfs").error().code() == ErrorCode::limit);
  CHECK(f.guarded->info("/local/a.log").ok());
  CHECK(f.guarded->remote("/nfs"));
  CHECK_FALSE(f.guarded->remote("/local"));
  f.server->go_on();
  CHECK(f.wait_unstuck());
  CHECK(f.guarded->info("/nfs/d.log").ok());
}

TEST_CASE("a tailer of a slow file goes on where it was once the server answers; nothing is lost or doubled") {
  Fixture f;
  Tailer tailer(*f.guarded, "/nfs/b.log", std::nullopt);
  std::vector<char> room(4096);
  const auto at = [&] { return TimePoint(std::chrono::microseconds(f.server->files.now_ns / 1000)); };
  std::string all;
  const auto read = [&] {
    const auto step = tailer.step(room, at());
    if (step.ok()) all.append(room.data(), step->size);
    return step.ok();
  };
  for (int i = 0; i < 3; ++i) CHECK(read());
  CHECK(all == "one\n");
  f.server->stop("/nfs/b.log");
  CHECK_FALSE(read());
  CHECK(tailer.wake() > at());
  CHECK(Fixture::took([&] { CHECK_FALSE(read()); }) < 25);
  f.server->go_on();
  CHECK(f.wait_unstuck());
  {
    f.server->files.now_ns += 5'000'000'000;
    f.server->files.write("/nfs/b.log", "two\n");
  }
  for (int i = 0; i < 5; ++i) CHECK(read());
  CHECK(all == "one\ntwo\n");
}

TEST_CASE("calls that are stuck for ever are left behind when everything else ends") {
  auto f = std::make_unique<Fixture>();
  const auto server = f->server;
  auto file = f->guarded->open("/nfs/a.log");
  REQUIRE(file.ok());
  server->stop("/nfs");
  CHECK_FALSE((*file)->info().ok());
  file = triage::parsers::Error(ErrorCode::io, "closed");
  f->guarded.reset();
  server->go_on();
  for (int i = 0; i < 500 && server.use_count() > 2; ++i) std::this_thread::sleep_for(milliseconds(10));
  CHECK(server.use_count() == 2);            // ours and the fixture's
}

TEST_CASE("the table of mounts: the longest one that a path lies below, escapes, types") {
  const MountTable table = MountTable::parse(
      "22 27 0:20 / /proc rw - proc proc rw\n27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 27 0:35 /x /data\\040set rw shared:2 master:1 - nfs4 server:/x rw\n41 40 0:36 / /data\\040set/fast rw - lustre mds:/f rw\n"
      "42 27 0:37 / /mnt rw - ext4 /dev/sdb rw\n43 42 0:38 / /mnt rw - fuse.s3fs s3fs rw\nbroken line\n - \n1 2 3 - x\n");
  const auto type = [&](std::string_view path) { return table.find(path)->type; };
  CHECK(type("/var/log") == "ext4");
  CHECK(type("/data set") == "nfs4");
  CHECK(type("/data set/a/b") == "nfs4");
  CHECK(type("/data sets") == "ext4");
  CHECK(type("/data set/fast/x") == "lustre");
  CHECK(type("/mnt/x") == "fuse.s3fs");
  CHECK(MountTable::parse("").find("/") == nullptr);
  CHECK(MountTable::current().find("/") != nullptr);
  for (const char* const name : {"nfs", "nfs4", "lustre", "fuse", "fuse.sshfs", "cifs", "9p", "ceph"}) CHECK(is_network_type(name));
  for (const char* const name : {"ext4", "xfs", "overlay", "tmpfs", "zfs", "btrfs"}) CHECK_FALSE(is_network_type(name));
}
