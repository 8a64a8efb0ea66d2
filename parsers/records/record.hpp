// Record: a Line with its launcher and logger prefixes peeled off.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "parsers/base/units.hpp"
#include "parsers/lines/line.hpp"

namespace triage::parsers {

enum class Level { unknown, debug, info, warning, error, fatal };

// The views look into the same buffer as the Line, or into the peeler's own scratch (docker JSON): until the next record.
// Unknown stays unknown: an empty view, an empty optional.
struct Record {
  Line line;
  std::string_view message;              // what the program itself printed, ANSI sequences removed
  std::optional<int> rank;               // global rank: [rank3]:, [3]: of torchrun with --log-dir? only where the emitter means global
  std::optional<int> local_rank;         // [default7]:
  std::optional<int> task;               // srun -l, mpirun: number of the task (a rank when one task runs per GPU)
  std::string_view node;                 // host, pod or address
  std::optional<std::int64_t> pid;       // (Actor pid=12)
  std::string_view actor;                // Ray actor, vLLM worker, replica name
  std::optional<TimePoint> time;
  Level level = Level::unknown;
  bool system = false;                   // kernel, journal, scheduler line rather than the program's own
  std::uint64_t stream = 0;              // whose output this is, as launchers and containers tell (stream_key.hpp); 0: no prefix
  std::uint32_t repeats = 1;             // Ray's "[repeated 6x across cluster]"
};

}  // namespace triage::parsers
