// The memo against a plain vector: pages of few and of many values, entries that are changed after their page was packed.
#include "parsers/snapshot/packed_memo.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using triage::parsers::PackedMemo;

TEST_CASE("what was put comes back, however many values a page has") {
  struct Row {
    const char* name;
    std::uint32_t values;   // how many different ones
    std::size_t changes;    // of earlier entries
  };
  const Row rows[] = {{"one value", 1, 0}, {"few", 5, 500}, {"as many as a byte tells", 255, 500}, {"more", 300, 500}, {"all different", 1U << 30, 500}};
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      std::mt19937 random(7);
      PackedMemo memo;
      std::vector<std::uint32_t> want(5000, PackedMemo::kNothing);
      const auto put = [&](std::size_t at) {
        want[at] = 1 + static_cast<std::uint32_t>(random()) % row.values;
        memo.put(at, want[at]);
      };
      for (std::size_t at = 0; at < want.size(); ++at)
        if (at % 97 != 5) put(at);   // some are never put
      for (std::size_t i = 0; i < row.changes; ++i) put(random() % want.size());
      std::size_t wrong = 0;
      // What was asked for is remembered: a change after it has to be seen.
      for (std::size_t i = 0; i < row.changes; ++i) {
        wrong += memo.get(i) != want[i];
        put(i);
        wrong += memo.get(i) != want[i];
      }
      for (std::size_t at = 0; at < want.size(); ++at) wrong += memo.get(at) != want[at];
      CHECK(wrong == 0);
      CHECK(memo.get(1'000'000) == PackedMemo::kNothing);
    }
  }
}

TEST_CASE("a page of few values takes little more than a byte an entry") {
  PackedMemo memo;
  for (std::uint64_t at = 0; at < 1'000'000; ++at) memo.put(at, 1 + static_cast<std::uint32_t>(at % 7));
  CHECK(memo.memory_bytes() < 1'150'000);
  CHECK(memo.memory_bytes() > 1'000'000);
}
