#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "db/migrate.hpp"
#include "db/store.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using db::Store;
using namespace triage::tests;

namespace {

std::int64_t keep(Store& store, const std::string& id, const std::string& answer, int second) {
  const auto d = diagnosis_of(id);
  const auto p = plan_of();
  signatures::SourceInfo source;
  source.name = "train.log";
  source.bytes = 100;
  const auto kept = store.keep({{d, p, answer}}, {source}, {"hash1", "0.1.0"}, at(second));
  REQUIRE(kept.ok());
  return *kept;
}

db::HistoryQuery of_kind(const std::string& kind) {
  db::HistoryQuery query;
  query.kind = kind;
  query.limit = 1000;
  return query;
}

}  // namespace

TEST_CASE("keeping the same answer again changes nothing") {
  const StoreFolder folder;
  auto store = Store::open(folder.file("a.db"));
  REQUIRE(store.ok());
  CHECK(keep(*store, "id1", "{}", 100) == 2);   // an incident and a source
  CHECK(keep(*store, "id1", "{}", 200) == 0);
  const auto rows = store->history({});
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 1);
  CHECK(rows->front().kept_at == at(100));
  CHECK(rows->front().rank == 2);
}

TEST_CASE("an incident judged anew is replaced and keeps its feedback and its time") {
  const StoreFolder folder;
  auto store = Store::open(folder.file("a.db"));
  REQUIRE(store.ok());
  keep(*store, "id1", "{}", 100);
  REQUIRE(store->say("id1", {"loss.fused", true, "went through", at(150)}).ok());
  CHECK(keep(*store, "id1", "{\"new\":1}", 200) == 1);
  const auto kept = store->find("id");
  REQUIRE(kept.ok());
  CHECK(kept->answer == "{\"new\":1}");
  CHECK(kept->row.kept_at == at(100));
  REQUIRE(kept->feedback.size() == 1);
  CHECK(kept->feedback[0].note == "went through");
  const auto records = store->fix_records("v1:0123");
  REQUIRE(records.ok());
  REQUIRE(records->size() == 1);
  CHECK(records->front().helped == 1);
}

TEST_CASE("history is filtered by the beginning of a kind, whole parts only") {
  const StoreFolder folder;
  auto store = Store::open(folder.file("a.db"));
  REQUIRE(store.ok());
  keep(*store, "id1", "{}", 100);
  for (const auto& row : {std::pair{"gpu", 1}, {"gpu.oom", 1}, {"gpu.oom.capacity", 1}, {"gpu.oo", 0}, {"host", 0}}) {
    const auto& [kind, count] = row;
    CAPTURE(std::string(row.first));
    const auto rows = store->history(of_kind(kind));
    REQUIRE(rows.ok());
    CHECK(rows->size() == static_cast<std::size_t>(count));
  }
}

TEST_CASE("an id prefix must be unique and must exist") {
  const StoreFolder folder;
  auto store = Store::open(folder.file("a.db"));
  REQUIRE(store.ok());
  keep(*store, "abc1", "{}", 1);
  keep(*store, "abc2", "{}", 2);
  keep(*store, "abc", "{}", 3);
  CHECK(store->find("abc1").ok());
  CHECK(store->find("abc").ok());   // a whole id wins over those it begins
  const auto both = store->find("ab");
  REQUIRE_FALSE(both.ok());
  CHECK(both.error().code() == parsers::ErrorCode::conflict);
  const auto none = store->find("x");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code() == parsers::ErrorCode::not_found);
  CHECK_FALSE(store->find("").ok());
}

TEST_CASE("files that are no database of ours are refused by name and left as they are") {
  const StoreFolder folder;
  SUBCASE("text") {
    std::ofstream(folder.file("x.db")) << std::string(5000, 'x');
    const auto store = Store::open(folder.file("x.db"));
    REQUIRE_FALSE(store.ok());
    CHECK(store.error().code() == parsers::ErrorCode::syntax);
    REQUIRE(store.error().place());
    CHECK(store.error().place()->file == folder.file("x.db"));
    CHECK(std::filesystem::file_size(folder.file("x.db")) == 5000);
  }
  SUBCASE("another program's") {
    auto other = db::Connection::open(folder.file("x.db"), db::Connection::Mode::read_write_create);
    REQUIRE(other.ok());
    REQUIRE(other->execute("CREATE TABLE theirs(a)").ok());
    const auto store = Store::open(folder.file("x.db"));
    REQUIRE_FALSE(store.ok());
    CHECK(store.error().code() == parsers::ErrorCode::conflict);
  }
  SUBCASE("a newer schema") {
    REQUIRE(Store::open(folder.file("x.db")).ok());
    auto newer = db::Connection::open(folder.file("x.db"), db::Connection::Mode::read_write_create);
    REQUIRE(newer.ok());
    REQUIRE(newer->execute("PRAGMA user_version = " + std::to_string(db::schema_version() + 1)).ok());
    const auto store = Store::open(folder.file("x.db"));
    REQUIRE_FALSE(store.ok());
    CHECK(store.error().code() == parsers::ErrorCode::unsupported);
  }
  SUBCASE("a file cut in the middle") {
    {
      auto store = Store::open(folder.file("x.db"));
      REQUIRE(store.ok());
      for (int i = 0; i < 200; ++i) keep(*store, "id" + std::to_string(i), std::string(2000, 'y'), i);
    }
    std::filesystem::resize_file(folder.file("x.db"), 20'000);
    auto store = Store::open(folder.file("x.db"));
    const bool refused = !store.ok() || !store->history(of_kind("")).ok();
    CHECK(refused);
  }
  SUBCASE("nothing there, for reading") {
    const auto store = Store::open_read_only(folder.file("none.db"));
    REQUIRE_FALSE(store.ok());
    CHECK(store.error().code() == parsers::ErrorCode::not_found);
    CHECK_FALSE(std::filesystem::exists(folder.file("none.db")));
  }
}

TEST_CASE("a disk that takes no more keeps nothing of a scan, says so, and leaves what was there") {
  const StoreFolder folder;
  {
    auto store = Store::open(folder.file("a.db"));
    REQUIRE(store.ok());
    keep(*store, "id1", "{}", 1);
  }
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 300'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  {
    auto store = Store::open(folder.file("a.db"));
    REQUIRE(store.ok());
    const auto d = diagnosis_of("id2");
    const auto p = plan_of();
    const auto kept = store->keep({{d, p, std::string(2'000'000, 'x')}}, {}, {"hash1", "0.1.0"}, at(2));
    ::setrlimit(RLIMIT_FSIZE, &before);
    REQUIRE_FALSE(kept.ok());
    CHECK(kept.error().code() == parsers::ErrorCode::io);
    REQUIRE(kept.error().place());
    CHECK(kept.error().place()->file == folder.file("a.db"));
  }
  auto store = Store::open(folder.file("a.db"));
  REQUIRE(store.ok());
  const auto rows = store->history({});
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 1);
  CHECK(rows->front().id == "id1");
}
