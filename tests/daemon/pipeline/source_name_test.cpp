#include "daemon/pipeline/source_name.hpp"

#include <doctest/doctest.h>

using namespace triage::daemon;

TEST_CASE("file names tell rank, node and attempt") {
  struct Row { const char* name; std::optional<int> rank, local_rank, attempt; const char* node; const char* key; };
  const Row rows[] = {
      {"logs/rank3.log", 3, {}, {}, "", "logs/rank*.log"},
      {"run/node04-rank_7.txt", 7, {}, {}, "node4", "run/node*-rank_*.txt"},
      {"j/attempt_0/3/stderr.log", {}, 3, 0, "", "j/attempt_0/*/std*.log"},
      {"train-2024-01-02.log", {}, {}, {}, "", ""},
      {"run/global_rank=12.log", 12, {}, {}, "", "run/global_rank=*.log"},
      {"rank99999999999.log", {}, {}, {}, "", "rank*.log"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto info = source_info(row.name);
    CHECK(info.rank == row.rank);
    CHECK(info.local_rank == row.local_rank);
    CHECK(info.attempt == row.attempt);
    CHECK(info.node == row.node);
    CHECK(job_key(row.name) == row.key);
  }
}
