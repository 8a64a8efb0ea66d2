#include "daemon/http/what_if_json.hpp"

#include <algorithm>

#include "daemon/pipeline/snapshot_compare.hpp"

namespace triage::daemon {

using namespace signatures;
namespace {

Json oom_json(const SnapshotAnalysis& analysis, const std::optional<ReplayOutOfMemory>& oom) {
  if (!oom) return nullptr;
  return {{"event", oom->event},
          {"tried_bytes", oom->tried.count()},
          {"reserved_bytes", oom->reserved.count()},
          {"allocated_bytes", oom->allocated.count()},
          {"where", oom->stack ? Json(stack_text(analysis.snapshot.stacks, oom->stack, 3)) : Json(nullptr)}};
}

Json what_if_json(const SnapshotAnalysis& analysis, const WhatIf& what) {
  const ReplayResult& r = what.result;
  return {{"settings", what.settings},
          {"would_oom", r.would_oom},
          {"reserved_peak_bytes", r.reserved_peak.count()},
          {"allocated_peak_bytes", r.allocated_peak.count()},
          {"active_peak_bytes", r.active_peak.count()},
          {"inactive_split_peak_bytes", r.inactive_split_peak.count()},
          {"unallocated_at_peak_bytes", r.unallocated_at_peak.count()},
          {"reserved_change_bytes", what.reserved_change.count()},
          {"retries", r.retries},
          {"ooms", r.ooms},
          {"segments", {{"allocated", r.segments_allocated}, {"freed", r.segments_freed}, {"peak", r.segments_peak}, {"maps", r.maps}, {"unmaps", r.unmaps}}},
          {"oom", oom_json(analysis, r.first_oom)},
          {"effect", effect_name(what.effect)},
          {"worse", makes_worse(what.effect)},
          {"note", what.note},
          {"basis", basis_name(Basis::modelled)}};
}

Json check_json(const DeviceWhatIfs& device) {
  const ReplayCheck& check = device.answer.check;
  return {{"reserved_error_percent", check.reserved_error_percent},
          {"recorded_reserved_peak_bytes", device.recorded.reserved_peak},
          {"replayed_reserved_peak_bytes", check.result.reserved_peak.count()},
          {"segments_recorded", check.segments_recorded},
          {"segments_replayed", check.segments_replayed},
          {"same_ooms", check.same_ooms},
          {"complete", device.complete},
          {"capacity_known", device.capacity_known},
          {"skipped_events", device.skipped}};
}

}  // namespace

void add_what_if(Json& answer, const SnapshotAnalysis& analysis, const std::vector<DeviceWhatIfs>& devices, bool asked) {
  for (Json& entry : answer["devices"]) {
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceWhatIfs& d) { return entry["device"] == d.device; });
    if (found == devices.end()) continue;
    entry["replay_check"] = check_json(*found);
    if (!asked) continue;
    Json list = Json::array();
    // Settings that were named stand in the order in which they were; all usual ones best first.
    if (found->asked.empty())
      for (const WhatIf& what : found->answer.ranked) list.push_back(what_if_json(analysis, what));
    for (const std::string& settings : found->asked) {
      const auto what = std::find_if(found->answer.ranked.begin(), found->answer.ranked.end(), [&](const WhatIf& w) { return w.settings == settings; });
      if (what != found->answer.ranked.end()) list.push_back(what_if_json(analysis, *what));
    }
    entry["what_if"] = std::move(list);
  }
}

}  // namespace triage::daemon
