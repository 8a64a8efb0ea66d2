#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "signatures/memory/alloc_conf.hpp"
#include "signatures/memory/allocator_address_space.hpp"
#include "signatures/memory/allocator_model.hpp"

using namespace triage::signatures;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

AllocConf conf(const std::string& text) {
  auto read = read_alloc_conf(text);
  REQUIRE(read.ok());
  return *read;
}

}  // namespace

TEST_CASE("the first requests of a run take the segments that PyTorch takes") {
  const struct {
    const char* settings;
    std::vector<std::int64_t> mib;    // requests, none freed
    std::int64_t reserved_mib;
  } rows[] = {
      {"", {1}, 2},
      {"", {1, 1}, 2},
      {"", {1, 1, 1}, 4},
      {"", {3}, 20},
      {"", {3, 3, 3, 3, 3, 3}, 20},           // a rest of 2 MiB stays
      {"", {9, 9, 9}, 40},
      {"", {11}, 12},
      {"", {11, 1}, 14},
      {"expandable_segments:True", {1}, 2},
      {"expandable_segments:True", {3}, 20},
      {"expandable_segments:True", {11, 11}, 40},
      {"expandable_segments:True", {11, 1}, 22},
      {"max_split_size_mb:20", {3, 3}, 20},
      {"max_split_size_mb:20", {30, 3}, 50},
      {"large_segment_size_mb:40", {3, 3}, 40},
  };
  for (const auto& row : rows) {
    const std::string settings = row.settings;
    CAPTURE(settings);
    CachingAllocatorModel model(conf(settings), {});
    for (const std::int64_t mib : row.mib) REQUIRE(model.malloc(mib * kMiB, 0, 0));
    CHECK(model.stats().reserved.now == row.reserved_mib * kMiB);
    CHECK(model.broken() == nullptr);
  }
}

TEST_CASE("when the device is full the cache is given back, and only then it is out of memory") {
  CachingAllocatorModel model(conf(""), {100 * kMiB, {}});
  AllocatorBlock* first = model.malloc(60 * kMiB, 0, 0);
  REQUIRE(first);
  model.free(first);
  AllocatorBlock* second = model.malloc(80 * kMiB, 0, 0);
  REQUIRE(second);
  CHECK(model.stats().retries == 1);
  CHECK(model.stats().segments_freed == 1);
  CHECK(model.malloc(30 * kMiB, 0, 0) == nullptr);
  CHECK(model.stats().ooms == 1);
  CHECK(model.stats().retries == 2);
  CHECK(model.stats().reserved.now == 80 * kMiB);
}

TEST_CASE("a cached block of another stream or pool is not taken") {
  CachingAllocatorModel model(conf(""), {});
  model.free(model.malloc(50 * kMiB, 0, 0));
  REQUIRE(model.malloc(50 * kMiB, 1, 0));
  REQUIRE(model.malloc(50 * kMiB, 0, 1));
  CHECK(model.stats().segments.now == 3);
  REQUIRE(model.malloc(50 * kMiB, 0, 0));
  CHECK(model.stats().segments.now == 3);
}

TEST_CASE("a block that other streams still use is not taken, but a full device waits for it") {
  CachingAllocatorModel model(conf(""), {100 * kMiB, {}});
  AllocatorBlock* block = model.malloc(60 * kMiB, 0, 0);
  model.free_requested(block);
  CHECK(model.stats().allocated.now == 0);
  CHECK(model.stats().active.now == 60 * kMiB);
  REQUIRE(model.malloc(60 * kMiB, 0, 0));
  CHECK(model.stats().retries == 1);
  CHECK(model.stats().reserved.now == 60 * kMiB);
  CHECK(model.broken() == nullptr);
}

TEST_CASE("pages of an expandable segment go back where they are whole, and are used again") {
  CachingAllocatorModel model(conf("expandable_segments:True"), {100 * kMiB, {}});
  AllocatorBlock* low = model.malloc(30 * kMiB, 0, 0);
  AllocatorBlock* high = model.malloc(30 * kMiB, 0, 0);
  REQUIRE(high);
  CHECK(model.stats().reserved.now == 60 * kMiB);
  model.free(low);                                  // pages [0, 20) are whole, [20, 40) is shared with `high`
  REQUIRE(model.malloc(60 * kMiB, 0, 0));           // needs the device: 60 + 60 > 100, with [0, 20) given back it fits
  CHECK(model.stats().retries == 1);
  CHECK(model.stats().reserved.now == 100 * kMiB);
  CHECK(model.broken() == nullptr);
}

TEST_CASE("garbage collection gives back what was not used for long, above its threshold only") {
  CachingAllocatorModel model(conf("garbage_collection_threshold:0.5,memory_limit:100MiB"), {});
  AllocatorBlock* old = model.malloc(40 * kMiB, 0, 0);
  model.free(old);
  AllocatorBlock* held = model.malloc(45 * kMiB, 0, 0);   // 40 MiB are not over the threshold yet
  REQUIRE(held);
  CHECK(model.stats().segments_freed == 0);
  REQUIRE(model.malloc(50 * kMiB, 0, 0));                  // 85 MiB are: the old one goes, without a retry
  CHECK(model.stats().segments_freed == 1);
  CHECK(model.stats().retries == 0);
}

TEST_CASE("random programs keep every rule of the allocator, and freeing all gives all back") {
  const char* settings[] = {"", "expandable_segments:True", "max_split_size_mb:20", "max_split_size_mb:64,max_non_split_rounding_mb:40",
                            "garbage_collection_threshold:0.5,memory_limit:400MiB", "roundup_power2_divisions:8",
                            "expandable_segments:True,memory_limit:300MiB", "expandable_segments:True,max_split_size_mb:32",
                            "large_segment_size_mb:64"};
  for (const char* text : settings) {
    const std::string name = text;
    CAPTURE(name);
    for (unsigned seed = 1; seed <= 4; ++seed) {
      CAPTURE(seed);
      std::mt19937 random(seed);
      CachingAllocatorModel model(conf(name), {600 * kMiB, {}});
      std::vector<AllocatorBlock*> live, pending;
      const auto pick = [&](std::vector<AllocatorBlock*>& from) {
        const std::size_t at = random() % from.size();
        AllocatorBlock* block = from[at];
        from[at] = from.back();
        from.pop_back();
        return block;
      };
      for (int step = 0; step < 1500; ++step) {
        const auto what = random() % 100;
        if (what < 52 || live.empty()) {
          const std::int64_t bytes = static_cast<std::int64_t>(random() % 4000) << (random() % 15);
          const std::int64_t ooms = model.stats().ooms, retries = model.stats().retries;
          AllocatorBlock* block = model.malloc(bytes, static_cast<std::uint16_t>(random() % 2), static_cast<std::uint16_t>(random() % 8 == 0));
          if (block) {
            REQUIRE(block->size >= bytes);
            live.push_back(block);
          } else {
            REQUIRE(model.stats().ooms == ooms + 1);
          }
          if (model.stats().retries != retries) pending.clear();   // the release has waited for all of them
        } else if (what < 92) {
          model.free(pick(live));
        } else if (what < 95) {
          model.free_requested(live.back());
          pending.push_back(live.back());
          live.pop_back();
        } else if (what < 98 && !pending.empty()) {
          model.free_completed(pick(pending));
        } else if (what == 99) {
          model.empty_cache();
          pending.clear();
        }
        if (step % 10 == 0) {
          const char* fault = model.broken();
          const std::string told = fault ? fault : "";
          REQUIRE(told == "");
        }
      }
      for (AllocatorBlock* block : live) model.free(block);
      for (AllocatorBlock* block : pending) model.free_completed(block);
      CHECK(model.stats().allocated.now == 0);
      CHECK(model.stats().active.now == 0);
      CHECK(model.stats().requested.now == 0);
      CHECK(model.broken() == nullptr);
    }
  }
}

TEST_CASE("freeing everything and emptying the cache leaves nothing reserved") {
  for (const char* text : {"", "expandable_segments:True", "max_split_size_mb:32"}) {
    const std::string name = text;
    CAPTURE(name);
    CachingAllocatorModel model(conf(name), {});
    std::vector<AllocatorBlock*> live;
    for (int i = 1; i < 200; ++i) live.push_back(model.malloc((i % 37) * 700'000, 0, 0));
    for (AllocatorBlock* block : live) model.free(block);
    CHECK(model.stats().reserved.now > 0);
    CHECK(model.stats().inactive_split.now == 0);
    model.empty_cache();
    CHECK(model.stats().reserved.now == 0);
    CHECK(model.stats().segments.now == 0);
    CHECK(model.broken() == nullptr);
  }
}

TEST_CASE("addresses are taken in pieces from the top down, and rests of pieces are used") {
  constexpr std::uint64_t top = std::uint64_t{1} << 40;
  AllocatorAddressSpace space(top);
  const auto mib = [](std::uint64_t n) { return n << 20; };
  CHECK(space.take(16 << 20) == top - mib(24));        // behind what the context has in the first piece
  CHECK(space.take(12 << 20) == top - mib(64));
  CHECK(space.take(2 << 20) == top - mib(64) + mib(12));
  CHECK(space.take(14 << 20) == top - mib(64) + mib(14));
  CHECK(space.take(100 << 20) == top - mib(192));
  space.give(top - mib(64));
  CHECK(space.take(10 << 20) == top - mib(192) + mib(100));   // the lowest place in which it fits
  CHECK(space.take(10 << 20) == top - mib(192) + mib(110));
  CHECK(space.take(10 << 20) == top - mib(64));
  CHECK_FALSE(space.take_at(top - mib(192), 2 << 20));
  CHECK(space.take_at(top - mib(1024), 2 << 20));
  CHECK_FALSE(space.take_at(top - mib(1026), 4 << 20));
}
