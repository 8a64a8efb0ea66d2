#include "signatures/verdict/clocks.hpp"

#include <doctest/doctest.h>

#include <string>

#include "signatures/verdict/incident_builder.hpp"

using namespace triage;
using namespace triage::signatures;
using namespace std::chrono_literals;

namespace {

parsers::TimePoint at(std::chrono::seconds seconds) { return std::chrono::sys_days(std::chrono::year(2026) / 3 / 1) + std::chrono::hours(10) + seconds; }

// A node that prints steps 1 to 6 every ten seconds, by a clock that is `ahead`.
SourceFindings node(const std::string& name, std::chrono::seconds ahead, int first_step = 1) {
  SourceFindings out;
  out.source.name = "logs/" + name + ".log";
  out.source.node = name;
  for (int step = first_step; step < first_step + 6; ++step) {
    parsers::Progress p;
    p.iteration = step;
    p.printer = "megatron";
    p.line = static_cast<std::uint64_t>(step * 10);
    p.time = at(std::chrono::seconds(step * 10)) + ahead + std::chrono::milliseconds(step % 3 * 40);
    out.progress.push_back(p);
  }
  out.last_line = 200;
  return out;
}

Finding fault(const std::string& rule, const std::string& kind, int rank, parsers::TimePoint time) {
  Finding f;
  f.rule = rule;
  f.kind = kind;
  f.line = 150;
  f.rank = rank;
  f.text = f.message = "RuntimeError: " + rule;
  f.time = time;
  return f;
}

}  // namespace

TEST_CASE("steps that nodes share show how far their clocks differ") {
  struct Row {
    const char* name;
    std::chrono::seconds ahead;
    int first_step;
    std::chrono::seconds want;
  };
  const Row rows[] = {{"five minutes ahead", 300s, 1, 300s}, {"three minutes behind", -180s, 1, -180s},  {"another time zone", 3600s * 8, 1, 3600s * 8},
                      {"the same", 0s, 1, 0s},          {"no step in common", 300s, 100, 0s},      {"two steps in common", 300s, 5, 0s},
                      {"another day", 3600s * 72, 1, 0s}};
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      std::vector<SourceFindings> sources{node("node-0", 0s), node("node-1", row.ahead, row.first_step), node("node-2", 0s)};
      align_clocks(sources);
      CHECK(sources[0].clock_ahead == 0s);
      CHECK(std::chrono::abs(sources[1].clock_ahead - row.want) < 1s);
    }
  }
}

TEST_CASE("barriers and group set-ups that nodes share show it as well") {
  const auto with_events = [](const std::string& name, std::chrono::seconds ahead, int events) {
    SourceFindings out;
    out.source.name = "logs/" + name + ".log";
    out.source.node = name;
    for (int i = 0; i < events; ++i)
      for (int rank = 0; rank < 2; ++rank) {   // each rank of the node prints it
        Finding f = fault("sync.store_barrier", "sync", rank, at(std::chrono::seconds(i * 15)) + ahead + std::chrono::milliseconds(rank * 30));
        f.role = Role::fact;
        f.captures = {{"event", "store_based_barrier_key:" + std::to_string(i)}, {"ranks", std::int64_t{4}}};
        out.findings.push_back(f);
      }
    out.last_line = 200;
    return out;
  };
  std::vector<SourceFindings> sources{with_events("node-0", 0s, 4), with_events("node-1", 300s, 4), with_events("node-2", 0s, 4), with_events("node-3", 300s, 2)};
  align_clocks(sources);
  CHECK(sources[0].clock_ahead == 0s);
  CHECK(std::chrono::abs(sources[1].clock_ahead - 300s) < 1s);
  CHECK(sources[3].clock_ahead == 0s);   // two events are too few
}

TEST_CASE("the first fault over two nodes is found although their clocks differ by minutes") {
  // Really: node-1 fails at 70 s, node-0 at 95 s. By its clock node-1 fails five minutes later.
  std::vector<SourceFindings> sources{node("node-0", 0s), node("node-1", 300s)};
  sources[0].findings.push_back(fault("cuda.illegal_access", "cuda.illegal_access", 0, at(95s)));
  sources[1].findings.push_back(fault("torch.cuda.oom", "gpu.oom", 8, at(370s)));
  const Judgement judged = judge(std::move(sources), VerdictOptions{at(1000s)});
  REQUIRE(judged.diagnoses.size() == 1);
  const Diagnosis& d = judged.diagnoses.front();
  CHECK(d.kind.starts_with("gpu.oom"));
  CHECK(d.root.rank == 8);
  REQUIRE(d.root.time);
  CHECK(*d.root.time == at(370s));   // as printed
}
