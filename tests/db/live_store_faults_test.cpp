// What happens to the service's store when the world is not kind: a lock, a full disk, no permission, damage, kill -9, readers.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <mutex>
#include <thread>

#include "db/live_store.hpp"
#include "db/migrate.hpp"
#include "db/outbox.hpp"
#include "db/query.hpp"
#include "db/retention.hpp"
#include "tests/support/child.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;
using db::LiveStore;
using parsers::ErrorCode;

namespace {

constexpr int kSources = 20;
constexpr int kLines = 5;

// Batch n: every source at offset n, lines, an incident and an alert of this number.
struct Numbered : IncidentBatch {
  explicit Numbered(std::int64_t n) : IncidentBatch("inc" + std::to_string(n), n, true, std::string(3000, 'x')) {
    for (int i = 0; i < kSources; ++i) {
      batch.sources.push_back(source_of("rank" + std::to_string(i) + ".log", static_cast<std::uint64_t>(n)));
      batch.sources.back().row.tail = std::string(200, static_cast<char>('a' + n % 26));
    }
    for (int i = 0; i < kLines; ++i)
      batch.sources[0].spool.push_back({static_cast<std::uint64_t>(n * 10 + i), static_cast<std::uint64_t>(n * 10 + i), std::string(100, 's')});
    batch.outbox.push_back(alert_of("slack", "inc" + std::to_string(n), "opened", 1));
  }
};

// The number of the last batch; fails when the database holds a part of a batch.
std::int64_t whole_batches(db::Query& query, std::int64_t lines) {
  db::SourceQuery all;
  all.ended_too = true;
  const auto sources = query.sources(all);
  REQUIRE(sources.ok());
  if (sources->rows.empty()) return 0;
  REQUIRE(sources->rows.size() == kSources);
  const auto last = static_cast<std::int64_t>(sources->rows[0].offset);
  for (const db::WatchedRow& row : sources->rows) CHECK(static_cast<std::int64_t>(row.offset) == last);
  if (lines >= 0) CHECK(lines == last * kLines);
  const auto totals = query.totals();
  REQUIRE(totals.ok());
  CHECK(totals->incidents == last);
  std::int64_t alerts = 0;
  const auto counts = query.sink_counts();
  REQUIRE(counts.ok());
  for (const db::SinkCount& count : *counts) alerts += count.items;
  CHECK(alerts == last);
  return last;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Writes over a part of a file.
void damage(const std::string& path, std::size_t from, std::size_t bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(from));
  const std::string noise(bytes, '\x5a');
  file.write(noise.data(), static_cast<std::streamsize>(noise.size()));
}

}  // namespace

TEST_CASE("locked by another process for longer than the time-out: the commit fails, nothing is lost, the next one works") {
  const StoreFolder folder;
  const std::string path = folder.file("live.db");
  REQUIRE(LiveStore::open(path).ok());
  Child child([&](int in, int out) {
    auto other = db::Connection::open(path, db::Connection::Mode::read_write_create);
    if (!other.ok() || !hear(in)) return 1;
    if (!other->execute("BEGIN IMMEDIATE; DELETE FROM silence;").ok()) return 2;
    tell(out);
    if (!hear(in)) return 3;
    return other->execute("ROLLBACK").ok() ? 0 : 4;
  });
  REQUIRE(child.running());
  db::LiveOptions options;
  options.busy_timeout_ms = 100;
  auto store = LiveStore::open(path, options);
  REQUIRE(store.ok());
  Numbered first(1);
  REQUIRE(store->commit(first.batch).ok());
  child.tell();
  REQUIRE(child.hear());

  Numbered second(2);
  for (int i = 0; i < 2; ++i) {
    const auto refused = store->commit(second.batch);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == ErrorCode::unavailable);
    REQUIRE(refused.error().place());
    CHECK(refused.error().place()->file == path);
    CHECK(second.batch.sources[0].row.id == 0);
    CHECK(second.batch.outbox[0].id == 0);
  }
  auto query = db::Query::open(path);   // readers go on
  REQUIRE(query.ok());
  CHECK(whole_batches(*query, -1) == 1);
  CHECK(store->watched()->size() == kSources);

  child.tell();
  CHECK(child.wait() == 0);
  REQUIRE(store->commit(second.batch).ok());
  CHECK(second.batch.sources[0].row.id > 0);
  CHECK(whole_batches(*query, -1) == 2);
  CHECK(store->check().ok());
}

namespace {

// A disk of 3 MB that can be filled. Where nothing may be mounted, a limit of the size of a file stands for it.
class SmallDisk {
 public:
  explicit SmallDisk(const StoreFolder& folder) : path_(folder.file("small")) {
    ::mkdir(path_.c_str(), 0700);
    mounted_ = ::geteuid() == 0 && ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=3m") == 0;
    if (!mounted_) {
      MESSAGE("no file system can be mounted here: a limit of the file size stands for the full disk");
      ::signal(SIGXFSZ, SIG_IGN);
      ::getrlimit(RLIMIT_FSIZE, &before_);
    }
  }
  ~SmallDisk() {
    free();
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  std::string file(const char* name) const { return path_ + "/" + name; }
  void fill() const {
    if (mounted_) {
      std::ofstream ballast(file("ballast"), std::ios::binary);
      const std::string block(4096, 'b');
      while (ballast.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
      }
    } else {
      rlimit small = before_;
      small.rlim_cur = std::filesystem::file_size(file("live.db-wal"));
      ::setrlimit(RLIMIT_FSIZE, &small);
    }
  }
  void free() const {
    std::error_code code;
    if (mounted_)
      std::filesystem::remove(file("ballast"), code);
    else
      ::setrlimit(RLIMIT_FSIZE, &before_);
  }

 private:
  std::string path_;
  bool mounted_ = false;
  rlimit before_{};
};

}  // namespace

TEST_CASE("a full disk: the commit fails, readers go on, and with room the same batch goes in") {
  const StoreFolder folder;
  const SmallDisk disk(folder);
  const std::string path = disk.file("live.db");
  {
    auto store = LiveStore::open(path);
    REQUIRE(store.ok());
    Numbered first(1);
    REQUIRE(store->commit(first.batch).ok());
    disk.fill();
    Numbered second(2);
    second.batch.incidents[0].answer.assign(300'000, 'x');
    for (int i = 0; i < 3; ++i) {
      const auto refused = store->commit(second.batch);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code() == ErrorCode::io);
      REQUIRE(refused.error().place());
      CHECK(refused.error().place()->file == path);
      CHECK(second.batch.sources[0].row.id == 0);
    }
    auto query = db::Query::open(path);
    REQUIRE(query.ok());
    CHECK(whole_batches(*query, -1) == 1);
    disk.free();
    REQUIRE(store->commit(second.batch).ok());
    CHECK(whole_batches(*query, -1) == 2);
    CHECK(store->check().ok());
  }
  auto again = LiveStore::open(path);
  REQUIRE(again.ok());
  CHECK(again->watched()->size() == kSources);
  CHECK(again->check().ok());
}

TEST_CASE("a file that may not be written is refused at the start, by name") {
  const StoreFolder folder;
  const std::string path = folder.file("live.db");
  {
    auto store = LiveStore::open(path);
    REQUIRE(store.ok());
    Numbered first(1);
    REQUIRE(store->commit(first.batch).ok());
  }
  for (const int folder_mode : {0777, 0555}) {
    CAPTURE(folder_mode);
    ::chmod(path.c_str(), 0444);
    ::chmod(folder.path.c_str(), static_cast<mode_t>(folder_mode));
    // root may write everywhere; another user tries it.
    Child child([&](int, int) {
      if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 1;
      db::LiveOptions options;
      options.move_damaged_aside = true;   // no damage: it is not moved
      const auto store = LiveStore::open(path, options);
      if (store.ok()) return 2;
      if (store.error().code() != ErrorCode::io) return 3;
      if (!store.error().place() || store.error().place()->file != path) return 4;
      const auto outbox = db::Outbox::open(path);
      if (outbox.ok()) return 5;
      auto query = db::Query::open(path);   // it can be read still
      if (!query.ok() || query->incidents({})->rows.size() != 1) return 6;
      return 0;
    });
    CHECK(child.wait() == 0);
  }
  ::chmod(folder.path.c_str(), 0700);
  ::chmod(path.c_str(), 0600);
  CHECK(std::filesystem::exists(path));
  CHECK(LiveStore::open(path).ok());
}

TEST_CASE("without file descriptors the database is told as not to be had for the moment, and is there again afterwards") {
  const StoreFolder folder;
  const std::string path = folder.file("live.db");
  REQUIRE(LiveStore::open(path).ok());
  Child child([&](int, int) {
    rlimit few{};
    ::getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 32;
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::vector<int> taken;
    for (int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC); fd >= 0; fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) taken.push_back(fd);
    const auto none = db::Query::open(path);
    if (none.ok()) return 1;
    if (none.error().code() != ErrorCode::unavailable) return 2;
    if (none.error().help_text().find("descriptors") == std::string::npos) return 3;
    for (const int fd : taken) ::close(fd);
    return db::Query::open(path).ok() ? 0 : 4;
  });
  CHECK(child.wait() == 0);
}

TEST_CASE("a damaged file is named; it is moved aside, whole, only when that is wanted") {
  const StoreFolder folder;
  const std::string path = folder.file("live.db");
  {
    auto store = LiveStore::open(path);
    REQUIRE(store.ok());
    for (int n = 1; n <= 50; ++n) {
      Numbered one(n);
      REQUIRE(store->commit(one.batch).ok());
    }
  }
  const std::size_t size = std::filesystem::file_size(path);
  db::LiveOptions move;
  move.move_damaged_aside = true;
  move.now = at(1'764'669'600);
  SUBCASE("at its begin") {
    damage(path, 0, 4096);
    const std::string before = bytes_of(path);
    const auto refused = LiveStore::open(path);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == ErrorCode::syntax);
    REQUIRE(refused.error().place());
    CHECK(refused.error().place()->file == path);
    CHECK(bytes_of(path) == before);

    const auto store = LiveStore::open(path, move);
    REQUIRE(store.ok());
    CHECK(store->moved_aside() == path + ".damaged-20251202T100000Z");
    CHECK(bytes_of(store->moved_aside()) == before);
    // A second time in the same second takes another name.
    std::ofstream(folder.file("two.db")) << "no database at all, but long enough to be looked at";
    std::ofstream(folder.file("two.db.damaged-20251202T100000Z")) << "x";
    const auto second = LiveStore::open(folder.file("two.db"), move);
    REQUIRE(second.ok());
    CHECK(second->moved_aside() == folder.file("two.db.damaged-20251202T100000Z-2"));
  }
  SUBCASE("in the middle: what meets the damage says so, and the file can be begun anew") {
    damage(path, 4096 * 8, size - 4096 * 8);
    {
      auto store = LiveStore::open(path);
      bool named = false;
      if (!store.ok()) {
        named = store.error().code() == ErrorCode::syntax;
      } else {
        CHECK(store->check().error().code() == ErrorCode::syntax);
        Numbered next(51);
        const auto commit = store->commit(next.batch);
        const auto rows = store->watched();
        named = (!commit.ok() && commit.error().code() == ErrorCode::syntax) || (!rows.ok() && rows.error().code() == ErrorCode::syntax);
      }
      CHECK(named);
    }
    const auto moved = db::move_aside(path, move.now);
    REQUIRE(moved.ok());
    CHECK(std::filesystem::exists(*moved));
    CHECK_FALSE(std::filesystem::exists(path));
    auto store = LiveStore::open(path);
    REQUIRE(store.ok());
    Numbered first(1);
    CHECK(store->commit(first.batch).ok());
    CHECK(store->check().ok());
  }
  SUBCASE("another program's database is never moved") {
    auto other = db::Connection::open(folder.file("x.db"), db::Connection::Mode::read_write_create);
    REQUIRE(other.ok());
    REQUIRE(other->execute("CREATE TABLE theirs(a)").ok());
    const auto refused = LiveStore::open(folder.file("x.db"), move);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == ErrorCode::conflict);
    CHECK(std::filesystem::exists(folder.file("x.db")));
  }
  SUBCASE("a newer schema is neither touched nor moved") {
    {
      auto newer = db::Connection::open(path, db::Connection::Mode::read_write_create);
      REQUIRE(newer->execute("PRAGMA user_version = " + std::to_string(db::schema_version() + 1)).ok());
    }
    const auto refused = LiveStore::open(path, move);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().reason().find(std::to_string(db::schema_version() + 1)) != std::string::npos);
    CHECK(db::Query::open(path).error().code() == ErrorCode::unsupported);
    CHECK(db::Outbox::open(path).error().code() == ErrorCode::unsupported);
    CHECK(std::filesystem::exists(path));
  }
}

TEST_CASE("kill -9, 50 times between and within commits: the file is sound and holds whole batches only") {
  const StoreFolder folder;
  const std::string path = folder.file("live.db");
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::int64_t reached = 0;
  for (int kill = 0; kill < 50; ++kill) {
    CAPTURE(kill);
    std::int64_t heard = 0;
    {
      Child child([&](int, int out) {
        auto store = LiveStore::open(path);
        if (!store.ok()) return 1;
        // Half of the time the log is moved into the file all the while, so that kills fall into that, too.
        auto retention = db::Retention::open(path);
        if (!retention.ok()) return 3;
        for (std::int64_t n = reached + 1;; ++n) {
          Numbered one(n);
          one.batch.flush = n % 7 == 0;
          if (!store->commit(one.batch).ok()) return 4;
          tell(out);
          if (kill % 2 == 0 && n % 3 == 0 && !retention->move_log().ok()) return 5;
        }
      });
      REQUIRE(child.running());
      const std::int64_t wanted = std::uniform_int_distribution<std::int64_t>(0, 8)(random);
      while (heard < wanted && child.hear()) ++heard;
      REQUIRE(heard == wanted);
      ::usleep(std::uniform_int_distribution<unsigned>(0, 3000)(random));
      child.kill();
      while (child.hear()) ++heard;
    }
    auto store = LiveStore::open(path);
    REQUIRE(store.ok());
    const auto sound = store->check();
    REQUIRE(sound.ok());
    const auto rows = store->watched();
    REQUIRE(rows.ok());
    std::int64_t lines = 0;
    for (const db::WatchedRow& row : *rows) lines += static_cast<std::int64_t>(store->spool(row.id)->size());
    auto query = db::Query::open(path);
    REQUIRE(query.ok());
    const std::int64_t now = whole_batches(*query, lines);
    CHECK(now >= reached + heard);       // what was acknowledged is there
    CHECK(now <= reached + heard + 1);   // and at most the one that was under way
    reached = now;
  }
  CHECK(reached > 50);
}

TEST_CASE("readers, sender and retention work beside the writer and always see whole batches") {
  const StoreFolder folder;
  const std::string path = folder.file("live.db");
  auto store = LiveStore::open(path);
  REQUIRE(store.ok());
  std::atomic<bool> done{false};
  std::atomic<int> reads{0}, sent{0};
  std::mutex lock;
  std::vector<std::string> faults;
  const auto fault = [&](const std::string& who, const auto& result) {
    if (result.ok()) return false;
    const std::lock_guard guard(lock);
    faults.push_back(who + ": " + result.error().message() + ": " + result.error().reason());
    return true;
  };
  const auto torn = [&](const std::string& what) {
    const std::lock_guard guard(lock);
    faults.push_back(what);
  };
  const auto reader = [&] {
    auto query = db::Query::open(path);
    (void)fault("open for reading", query);
    std::uint64_t before = 0;
    while (query.ok() && !done) {
      db::SourceQuery all;
      const auto page = query->sources(all);
      if (fault("sources", page)) break;
      if (page->rows.size() != 0 && page->rows.size() != kSources) return torn("a part of the sources");
      for (const db::WatchedRow& row : page->rows)
        if (row.offset != page->rows[0].offset || row.offset < before) torn("offsets of two batches");
      if (!page->rows.empty()) before = page->rows[0].offset;
      (void)fault("history", query->incidents({}));
      (void)fault("recurring", query->recurring(db::Shared::rank, {}));
      (void)fault("totals", query->totals());
      ++reads;
    }
  };
  const auto sender = [&] {
    auto outbox = db::Outbox::open(path);
    (void)fault("open the outbox", outbox);
    while (outbox.ok() && !done) {
      const auto due = outbox->due(at(1000), 5);
      if (fault("due", due)) continue;
      for (const db::OutboxItem& item : *due) {
        const auto taken = outbox->take(item.id, at(1000));
        if (!fault("take", taken) && !*taken) torn("an item was taken by another");
        (void)fault("sent", outbox->sent(item.id, "r" + std::to_string(item.id), at(1000)));
        ++sent;
      }
    }
  };
  const auto sweeper = [&] {
    auto retention = db::Retention::open(path);
    (void)fault("open for retention", retention);
    while (retention.ok() && !done) {
      (void)fault("slice", retention->slice({}, at(1000)));
      (void)fault("move the log", retention->move_log());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(reader);
  threads.emplace_back(sender);
  threads.emplace_back(sweeper);
  int failed = 0;
  std::string why;
  for (std::int64_t n = 1; n <= 200; ++n) {
    Numbered one(n);
    if (const auto committed = store->commit(one.batch); !committed.ok()) {
      ++failed;
      why = committed.error().reason();
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CAPTURE(why);
  CHECK(failed == 0);
  for (const std::string& one : faults) FAIL_CHECK(one);
  CHECK(reads > 0);
  CHECK(sent > 0);
  auto query = db::Query::open(path);
  REQUIRE(query.ok());
  CHECK(whole_batches(*query, -1) == 200);
  CHECK(store->check().ok());
}
