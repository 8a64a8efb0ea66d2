#include <doctest/doctest.h>

#include "db/live_store.hpp"
#include "db/silences.hpp"
#include "tests/support/store.hpp"

using namespace triage;
using namespace triage::tests;

namespace {

db::Silence silence(const char* kind, const char* job, const char* node, const char* fingerprint) {
  db::Silence out;
  out.kind = kind;
  out.job = job;
  out.node = node;
  out.fingerprint = fingerprint;
  out.starts_at = at(100);
  out.ends_at = at(200);
  out.author = "ops";
  return out;
}

}  // namespace

TEST_CASE("a silence fits by all its fields, kinds by whole parts, and only within its time") {
  struct Row {
    const char* name;
    db::Silence silence;
    int second;
    bool want;
  };
  const Row rows[] = {
      {"kind", silence("gpu.oom.capacity", "", "", ""), 150, true},
      {"beginning of the kind", silence("gpu", "", "", ""), 150, true},
      {"half a part", silence("gpu.oo", "", "", ""), 150, false},
      {"a longer kind", silence("gpu.oom.capacity.x", "", "", ""), 150, false},
      {"job", silence("", "j1", "", ""), 150, true},
      {"other job", silence("gpu", "j2", "", ""), 150, false},
      {"node and cause", silence("", "", "n1", "v1:a"), 150, true},
      {"other cause", silence("", "", "n1", "v1:b"), 150, false},
      {"everything", silence("", "", "", ""), 150, true},
      {"before", silence("gpu", "", "", ""), 99, false},
      {"first moment", silence("gpu", "", "", ""), 100, true},
      {"end", silence("gpu", "", "", ""), 200, false},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    CHECK(db::silences(row.silence, {"gpu.oom.capacity", "j1", "n1", "v1:a"}, at(row.second)) == row.want);
  }
}

TEST_CASE("silences are added, listed, ended, and stay known") {
  const StoreFolder folder;
  REQUIRE(db::LiveStore::open(folder.file("live.db")).ok());
  auto store = db::Silences::open(folder.file("live.db"));
  REQUIRE(store.ok());
  const auto first = store->add(silence("gpu", "", "", ""), at(50));
  const auto second = store->add(silence("", "j1", "", ""), at(50));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(*second > *first);
  CHECK(store->active(at(60))->size() == 2);   // those that will hold, too
  REQUIRE(store->end(*first, at(150)).ok());
  const auto active = store->active(at(150));
  REQUIRE(active.ok());
  REQUIRE(active->size() == 1);
  CHECK(active->front().job == "j1");
  CHECK(active->front().author == "ops");
  CHECK(active->front().created_at == at(50));
  REQUIRE(store->end(*first, at(180)).ok());
  const auto all = store->all(10);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 2);
  CHECK((*all)[1].ends_at == at(150));
  CHECK(store->end(4711, at(1)).error().code() == parsers::ErrorCode::not_found);
  SUBCASE("one that has not begun never holds") {
    REQUIRE(store->end(*second, at(60)).ok());
    CHECK(store->active(at(60))->size() == 1);   // the first one, until 150
  }
}

TEST_CASE("a silence without an end ahead, or of everything without a reason, is refused") {
  const StoreFolder folder;
  REQUIRE(db::LiveStore::open(folder.file("live.db")).ok());
  auto store = db::Silences::open(folder.file("live.db"));
  REQUIRE(store.ok());
  db::Silence backwards = silence("gpu", "", "", "");
  backwards.ends_at = at(100);
  CHECK(store->add(backwards, at(1)).error().code() == parsers::ErrorCode::syntax);
  CHECK(store->add(silence("gpu", "", "", ""), at(200)).error().code() == parsers::ErrorCode::syntax);
  db::Silence everything = silence("", "", "", "");
  CHECK(store->add(everything, at(1)).error().code() == parsers::ErrorCode::syntax);
  everything.reason = "power is cut for the weekend";
  CHECK(store->add(everything, at(1)).ok());
}
