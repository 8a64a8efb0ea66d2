#include "daemon/cli/what_if.hpp"

#include <algorithm>
#include <cstdio>

#include "daemon/cli/page.hpp"
#include "daemon/pipeline/snapshot_compare.hpp"

namespace triage::daemon {

using namespace signatures;
namespace {

std::string percent(double value) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%+.2f %%", value == 0 ? 0.0 : value);
  return text;
}

}  // namespace

std::string what_if_text(const SnapshotAnalysis& analysis, const std::vector<DeviceWhatIfs>& devices, const TextStyle& style) {
  Page page(style);
  if (devices.empty()) page.row("what if", "the snapshot has no events to replay: torch.cuda.memory._record_memory_history() before the first allocation records them");
  for (const DeviceWhatIfs& device : devices) {
    page.blank();
    page.head(devices.size() > 1 ? "Under other allocator settings, GPU " + std::to_string(device.device) : "Under other allocator settings");
    for (const WhatIf& what : device.answer.ranked) {
      // A long setting has a line of its own.
      page.row(what.effect == WhatIfEffect::as_recorded ? "as it was" : what.effect == WhatIfEffect::rescues ? "helps"
               : makes_worse(what.effect)                                                                     ? "WORSE"
               : what.effect == WhatIfEffect::lower                                                           ? "less"
                                                                                                              : "no help",
               what.settings);
      page.under(what.note);
      const auto& oom = what.result.first_oom;
      const auto& recorded = device.answer.check.result.first_oom;
      if (oom && oom->stack && (!recorded || recorded->event != oom->event || what.effect == WhatIfEffect::as_recorded))
        page.under("at " + one_line(stack_text(analysis.snapshot.stacks, oom->stack, 3), 200));
    }
    const ReplayCheck& check = device.answer.check;
    page.row("check", "the recorded settings replayed: peak of reserved memory " + percent(check.reserved_error_percent) + ", " +
                          std::to_string(check.segments_replayed) + " of " + std::to_string(check.segments_recorded) + " segments" +
                          (check.same_ooms ? "" : ", but not the same failures"));
    if (!device.capacity_known) page.row("unknown", "how much PyTorch could have reserved, since it never failed: --capacity 80GiB tells it");
    if (!device.complete) page.row("unknown", "what stood before the recording began is taken as it was; under growing segments as asked for anew");
  }
  return page.take();
}

}  // namespace triage::daemon
