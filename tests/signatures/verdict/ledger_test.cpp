#include "signatures/verdict/ledger.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace triage::signatures;
namespace parsers = triage::parsers;
using parsers::gib;
using parsers::mib;

namespace {

struct Row {
  std::string name;   // of the labelled log the figures come from
  parsers::Bytes tried, capacity, free, in_use, allocated, unallocated;   // in_use 0: not printed
  std::vector<parsers::ProcessMemory> processes;
  std::string want;
};

// The figures are those of the logs; the kinds are their labels.
const std::vector<Row> kRows = {
    {"capacity_forward", gib(2), gib(139.80), mib(537.12), gib(139.27), gib(135.08), gib(3.52), {}, "gpu.oom.capacity"},
    {"fragmentation", gib(30), gib(139.80), gib(13.11), gib(126.68), gib(7.57), gib(118.60), {}, "gpu.oom.fragmentation"},
    {"other_process", mib(896), gib(139.80), mib(571.56), gib(20.72), gib(19.75), mib(308.93), {{1387, gib(118.51)}}, "gpu.oom.other_process"},
    {"ranks-oom", gib(128), gib(139.80), gib(5.49), gib(129.43), gib(128.56), mib(70.75), {{519, gib(1.62)}, {521, gib(1.62)}, {518, gib(1.62)}}, "gpu.oom.capacity"},
    {"megatron dense forward", gib(4), gib(139.80), gib(2.19), gib(137.60), gib(131.55), gib(5.32), {}, "gpu.oom.capacity"},
    {"405b on GB300", mib(1002), gib(276.50), mib(676.62), gib(275.82), gib(210.08), gib(59.51), {}, "gpu.oom.fragmentation"},
    {"litgpt adapter", gib(8.06), gib(23.70), gib(1.27), gib(22.43), gib(12.62), gib(8.65), {}, "gpu.oom.fragmentation"},
    {"four ranks on one device, no own figure", mib(30), gib(79.10), mib(15.19), {}, gib(19.60), mib(225.59),
     {{16746, gib(20.84)}, {16747, gib(20.33)}, {16748, gib(18.94)}, {16749, gib(18.94)}}, "gpu.oom.other_process"},
    {"own process listed by its host number", gib(1.68), gib(79.21), mib(259.19), {}, gib(70.48), gib(6.78),
     {{2828469, mib(516)}, {2856448, gib(78.44)}}, "gpu.oom.fragmentation"},
    {"own process is the only one", mib(496), gib(14.75), mib(235.06), {}, gib(14.06), mib(330.42), {{20398, gib(14.52)}}, "gpu.oom.capacity"},
    {"free a little above the request", mib(388), gib(23.64), mib(562.06), gib(22.14), gib(21.35), mib(236.09),
     {{1140273, mib(384)}, {1209389, mib(516)}}, "gpu.oom.capacity"},
    {"refused on an empty device", gib(4.66), gib(5.65), gib(5.65), {}, parsers::kib(195.5), mib(1.81), {}, "gpu.oom.driver"},
    {"one request of 23 GiB", gib(23.11), gib(23.70), gib(20.83), {}, gib(1.54), gib(0.33), {}, "gpu.oom.capacity"},
    {"small card with a desktop", mib(128), gib(4), mib(74.77), {}, gib(2.57), gib(0.28), {}, "gpu.oom.capacity"},
    {"LoRA on V100", mib(284), gib(31.75), mib(99.5), {}, gib(27.12), gib(3.32), {}, "gpu.oom.fragmentation"},
};

parsers::OutOfMemory event_of(const Row& row) {
  parsers::OutOfMemory e;
  e.backend = "cuda";
  e.tried = row.tried;
  e.capacity = row.capacity;
  e.free = row.free;
  if (row.in_use.count() > 0) e.in_use = row.in_use;
  e.allocated = row.allocated;
  e.reserved_unallocated = row.unallocated;
  e.processes = row.processes;
  return e;
}

}  // namespace

TEST_CASE("the figures of an out-of-memory message tell its kind") {
  for (const auto& row : kRows) {
    SUBCASE(row.name.c_str()) {
      const auto event = event_of(row);
      const auto ledger = make_ledger(event);
      CHECK(refine_memory_kind("gpu.oom", &event, &ledger, Phase::unknown, {}).kind == row.want);
    }
  }
}

TEST_CASE("expandable segments that are on rule out fragmentation") {
  const auto event = event_of(kRows[1]);
  const auto ledger = make_ledger(event);
  parsers::RunConfig config;
  config.set(parsers::Key::alloc_conf, std::string("expandable_segments:True"), "environment");
  CHECK(refine_memory_kind("gpu.oom", &event, &ledger, Phase::unknown, config).kind == "gpu.oom.capacity");
}

TEST_CASE("a limit of the program's own is told, and is capacity") {
  parsers::OutOfMemory event;
  event.backend = "hip";
  event.tried = mib(2);
  event.capacity = gib(287.98);
  event.free = gib(275.86);
  event.limit = gib(1.05);
  event.allocated = mib(1017.01);
  const auto ledger = make_ledger(event);
  const auto kind = refine_memory_kind("gpu.oom", &event, &ledger, Phase::unknown, {});
  CHECK(kind.kind == "gpu.oom.capacity");
  CHECK(kind.fix_hints == std::vector<std::string>{"limit"});
}

TEST_CASE("a kind that the rule gave stays") {
  CHECK(refine_memory_kind("gpu.oom.cublas", nullptr, nullptr, Phase::unknown, {}).kind == "gpu.oom.cublas");
}

TEST_CASE("memory outside PyTorch, and figures that are none") {
  auto event = event_of(kRows[0]);
  CHECK(make_ledger(event).outside_pytorch == gib(139.27) - gib(135.08) - gib(3.52));
  event.in_use = gib(17179869184.0);
  const auto absurd = make_ledger(event);
  CHECK_FALSE(absurd.in_use);
  CHECK_FALSE(absurd.note.empty());
  event.in_use = parsers::Bytes(0);
  CHECK_FALSE(make_ledger(event).in_use);
}

TEST_CASE("the own process is not among the others") {
  const auto ledger = make_ledger(event_of(kRows[8]));
  REQUIRE(ledger.other_processes.size() == 1);
  CHECK(ledger.other_processes[0].pid == 2828469);
  CHECK(ledger.in_use == gib(78.44));
}
