// Judgement over whole logs: what one process and several processes say about the rank.
#include <doctest/doctest.h>

#include "tests/support/scan.hpp"

using namespace triage;

TEST_CASE("the rank of a failure is what the log shows, and 0 where only one process can be") {
  REQUIRE(tests::knowledge());
  const std::string trace = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\n    main()\n";
  const std::string error = "ValueError: the sample has 4097 tokens\n";
  const struct {
    const char* name;
    std::string text;
    std::optional<int> rank, local_rank;
  } rows[] = {
      {"one process, no prefix", trace + error, 0, std::nullopt},
      {"a rank's prefix", "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 7, in <module>\n[rank3]:     main()\n[rank3]: " + error, 3, std::nullopt},
      {"several processes, the failing one without prefix", "[rank0]: step 1\n[rank1]: RuntimeError: Connection closed by peer [10.0.0.1]:1234\n" + trace + error, std::nullopt, std::nullopt},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.name));
    const daemon::Answer answer = tests::scan_text(row.text);
    REQUIRE(answer.incidents.size() == 1);
    const auto& root = answer.incidents[0].diagnosis.root;
    if (row.rank || !root.rank) CHECK(root.rank == row.rank);
    CHECK(root.local_rank == row.local_rank);
  }
}
