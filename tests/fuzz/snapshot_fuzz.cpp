// Allocator snapshots from outside bytes, with the whole analysis behind the reader: states, categories, growth, timeline, replay under other
// settings.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "parsers/snapshot/snapshot_reader.hpp"
#include "parsers/snapshot/summary.hpp"
#include "signatures/memory/replay_recording.hpp"
#include "signatures/memory/what_if.hpp"
#include "signatures/verdict/memory_composition.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)parsers::looks_like_snapshot(bytes.substr(0, 4096));
  const auto snapshot = parsers::read_snapshot(bytes, "fuzz");
  if (!snapshot.ok()) return 0;
  parsers::SummaryOptions options;
  options.timeline_points = 20;
  signatures::StackJudge judge(snapshot->stacks);
  for (const parsers::DeviceSummary& summary : parsers::summarize(*snapshot, options)) {
    std::vector<const parsers::MemoryState*> states = {&summary.now};
    if (summary.peak) states.push_back(&*summary.peak);
    if (summary.oom) states.push_back(&summary.oom->state);
    for (const parsers::MemoryState* const state : states) {
      const auto composition = signatures::compose(*state, judge, parsers::last_step_before(summary, *state));
      for (const signatures::CategoryBytes& by : composition.categories)
        if (by.guessed > by.bytes) std::abort();   // a guessed share is a share
      for (const signatures::StackBytes& by : composition.stacks) (void)signatures::telling_frames(snapshot->stacks, by.stack, 3);
    }
    if (const auto trace = signatures::replay_trace(*snapshot, summary.device)) {
      const std::vector<signatures::AllocConf> settings = signatures::usual_settings(*trace);
      (void)signatures::what_if(*trace, settings);
    }
  }
  return 0;
}
