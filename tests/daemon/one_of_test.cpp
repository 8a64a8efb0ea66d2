// Dumps that name a set of ranks of which one stands still, and not which: every form of the answer says so.
#include <doctest/doctest.h>

#include "daemon/alert/policy.hpp"
#include "daemon/alert/render.hpp"
#include "daemon/cli/view.hpp"
#include "daemon/http/json_view.hpp"
#include "tests/support/sample_alert.hpp"
#include "tests/support/scan.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage;
using daemon::Json;

namespace {

constexpr const char* kConfig = R"("pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}})";

// Of the form that PyTorch's dump_json writes: one all_reduce that all four ranks have called and none has finished.
std::string dump() {
  return std::string(R"({"version": "2.9", "comm_lib_version": "2.27.3", )") + kConfig + R"(, "entries": [{"record_id": 6, "pg_id": 0, "process_group": ["0", "default_pg"],
    "collective_seq_id": 7, "p2p_seq_id": 0, "op_id": 7, "profiling_name": "nccl:all_reduce", "is_p2p": false, "time_created_ns": 1758610505880883597,
    "input_sizes": [[1048576]], "input_dtypes": ["Float"], "output_sizes": [[1048576]], "output_dtypes": ["Float"], "state": "scheduled", "retired": false,
    "timeout_ms": 600000}]})";
}

daemon::Answer scanned() {
  const tests::TempFolder folder;
  std::vector<std::string> files;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string name = "nccl_trace_rank_" + std::to_string(rank);
    folder.append(name, dump());
    files.push_back(folder / name);
  }
  return tests::scan_paths(files);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("one of several ranks stands still: every form of the answer says of whom") {
  const daemon::Answer answer = scanned();
  REQUIRE(answer.incidents.size() == 1);
  const auto& fault = answer.incidents[0].diagnosis.collective;
  REQUIRE(fault);
  CHECK(fault->culprit_ranks.empty());
  REQUIRE(fault->one_of == std::vector<std::vector<int>>{{0, 1, 2, 3}});

  for (const bool all : {false, true}) {
    daemon::TextStyle style;
    style.width = 2000;
    style.all = all;
    CHECK(contains(daemon::answer_text(answer, style), "all_reduce number 7 of group default_pg; stands still: one of ranks 0-3"));
  }
  const std::string ticket = daemon::answer_markdown(answer);
  CHECK(contains(ticket, "- **collective**: all\\_reduce number 7 of group default\\_pg; stands still: one of ranks 0-3"));
  CHECK(contains(ticket, "one of ranks 0-3 stands still, the dumps do not tell which"));
  CHECK(contains(daemon::answer_sarif(answer)["runs"][0]["results"][0]["message"]["text"], "stands still: one of ranks 0-3"));
  const Json json = daemon::answer_json(answer, "x");
  CHECK(json["incidents"][0]["collective"]["one_of"] == Json::array({Json::array({0, 1, 2, 3})}));

  const Json body = daemon::alert_body(tests::alerting::alert("opened", 1, json["incidents"][0]));
  CHECK(contains(daemon::plain_text(daemon::alert_text(body)), "stands still: one of rank 0, 1, 2, 3"));
}

TEST_CASE("culprits beside sets, and more sets than are told one by one") {
  signatures::CollectiveFault fault;
  fault.operation = "all_reduce";
  fault.culprit_ranks = {9};
  fault.waiting_ranks = {4};
  for (int i = 10; i < 22; i += 2) fault.one_of.push_back({i, i + 1});
  CHECK(daemon::collective_text(fault) ==
        "all_reduce; did not arrive: rank 9; stands still: one of ranks 10, 11; stands still: one of ranks 12, 13; stands still: one of ranks 14, 15; "
        "stands still: one of ranks 16, 17 (and of 2 more sets); waited: rank 4");
  fault.operation.clear();
  fault.one_of.resize(1);
  CHECK(daemon::collective_text(fault) == "did not arrive: rank 9; stands still: one of ranks 10, 11; waited: rank 4");

  Json incident = tests::alerting::incident();
  incident["collective"] = {{"operation", "all_reduce"}, {"culprit_ranks", {9}}, {"one_of", {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {10, 11}}}};
  for (int i = 100; i < 200; ++i) incident["collective"]["waiting_ranks"].push_back(i);
  const std::string text = daemon::plain_text(daemon::alert_text(daemon::alert_body(tests::alerting::alert("opened", 1, incident))));
  CHECK(contains(text, "held up by rank 9; stands still: one of rank 1, 2; stands still: one of rank 3, 4; stands still: one of rank 5, 6; "
                       "stands still: one of rank 7, 8 (and of 1 more set); waiting: rank 100"));
}

TEST_CASE("an alert is told again when the set grows smaller") {
  Json incident = tests::alerting::incident();
  incident["collective"] = {{"operation", "all_reduce"}, {"culprit_ranks", Json::array()}, {"one_of", {{1, 2}, {3, 4}}}};
  Json later = incident;
  later["collective"]["one_of"] = {{1, 2}};
  CHECK(daemon::alert_digest(incident) != daemon::alert_digest(later));
}
