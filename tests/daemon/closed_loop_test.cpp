// Runs that died on one H200 for real, each changed as the answer to its log prints it and run again: the predicted peak is recomputed
// here and compared with max_memory_allocated of the changed run (tests/corpus/memory/closed-loop/results.jsonl).
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/scan.hpp"

using namespace triage;

TEST_CASE("the peak of the changed run comes true") {
  const std::string folder = TRIAGE_SOURCE_DIR "/tests/corpus/memory/closed-loop/";
  std::ifstream file(folder + "results.jsonl");
  std::size_t rows = 0, first = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string name = row.at("log"), fix = row.at("fix");
    CAPTURE(name);
    const daemon::Answer answer = tests::scan_paths({folder + name + ".log.gz"});
    REQUIRE(answer.incidents.size() == 1);
    const signatures::Plan& plan = answer.incidents[0].plan;
    REQUIRE_FALSE(plan.fixes.empty());
    if (plan.fixes[0].id == fix) ++first;
    bool found = false;
    for (const signatures::Fix& proposed : plan.fixes) {
      if (proposed.id != fix) continue;
      found = true;
      CHECK(proposed.fits == true);
      REQUIRE(proposed.predicted_peak);
      const double measured = row.at("measured_bytes"), error = 100 * std::abs(static_cast<double>(proposed.predicted_peak->count()) - measured) / measured;
      CAPTURE(error);
      CHECK(error < row.value("tolerance_percent", 5.0));
    }
    CHECK_MESSAGE(found, fix << " is not proposed");
  }
  CHECK(rows >= 17);
  CHECK(first >= 8);
}

TEST_CASE("images, routing and the micro batch in which it died follow from the failure where the log does not state them") {
  const std::string folder = TRIAGE_SOURCE_DIR "/tests/corpus/memory/closed-loop/";
  const auto told = [&](const char* name, const char* part) {
    const daemon::Answer answer = tests::scan_paths({folder + name + ".log.gz"});
    REQUIRE(answer.incidents.size() == 1);
    bool found = false;
    for (const signatures::Fix& fix : answer.incidents[0].plan.fixes)
      for (const std::string& text : fix.assumes) found = found || text.find(part) != std::string::npos;
    CHECK_MESSAGE(found, name << ": " << part);
  };
  // Two images a sample were there, and the gradients of the first of two micro batches.
  told("hf-llava", "2 images in a sample, from what was allocated when it failed in a later micro batch of its step");
  // The failed request held the rows of all eight ranks.
  told("megatron-moe-ep8", "in the layer that failed it was 8.00 times");
  told("megatron-moe-ep4", "(the last layer failed) and 4.00, taken as");
}
