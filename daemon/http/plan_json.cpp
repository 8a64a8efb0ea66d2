#include "daemon/http/plan_json.hpp"

namespace triage::daemon {

using signatures::memory::StageEstimate;
using signatures::memory::Term;

namespace {

Json range_json(const signatures::memory::Range& range) { return {{"low", range.low.count()}, {"mid", range.mid.count()}, {"high", range.high.count()}}; }

Json terms_json(const std::vector<Term>& terms) {
  Json out = Json::array();
  for (const Term& term : terms)
    out.push_back({{"term", term.name},
                   {"bytes", term.mid.count()},
                   {"low", term.low.count()},
                   {"high", term.high.count()},
                   {"outside_allocator", term.outside},
                   {"note", term.note.empty() ? Json(nullptr) : Json(term.note)}});
  return out;
}

Json stage_json(const StageEstimate& stage) {
  Json phases = Json::array();
  for (const auto& phase : stage.phases) phases.push_back({{"phase", phase_name(phase.phase)}, {"allocated_bytes", phase.allocated.mid.count()}});
  return {{"pipeline_rank", stage.pipeline_rank},
          {"layers", stage.layers.size()},
          {"parameters", stage.dense_parameters + stage.expert_parameters},
          {"static_bytes", stage.static_bytes.count()},
          {"peak_bytes", stage.peak_allocated.mid.count()},
          {"peak_range", range_json(stage.peak_allocated)},
          {"device_bytes", stage.peak_device.mid.count()},
          {"peak_phase", phase_name(stage.peak_phase)},
          {"phases", phases},
          {"terms", terms_json(stage.terms)}};
}

Json need_json(const signatures::Need& need) {
  return {{"peak_bytes", need.peak.mid.count()}, {"low", need.peak.low.count()}, {"high", need.peak.high.count()}, {"fits", need.fits}};
}

}  // namespace

Json plan_json(const MemoryPlan& plan) {
  Json stages = Json::array();
  for (const StageEstimate& stage : plan.forecast->estimate().stages)
    if (!plan.pipeline_rank || *plan.pipeline_rank == stage.pipeline_rank) stages.push_back(stage_json(stage));
  Json fixes = Json::array();
  for (const signatures::Fix& fix : plan.plan.fixes) fixes.push_back(fix_json(fix, fix.rank));
  Json assumptions = Json::array();
  for (const auto& assumption : plan.forecast->estimate().assumptions) assumptions.push_back({{"key", assumption.key}, {"text", assumption.text}});
  Json out = {{"config", config_json(plan.config)},
              {"ignored", plan.ignored},
              {"capacity_bytes", plan.capacity ? Json(plan.capacity->count()) : Json(nullptr)},
              {"fits", plan.capacity ? Json(plan.forecast->now().fits) : Json(nullptr)},
              {"pipeline_stages", stages},
              {"assumptions", assumptions},
              {"calibration", plan.forecast->calibration().notes},
              {"fixes", fixes},
              {"verdict", plan.plan.verdict.empty() ? Json(nullptr) : Json(plan.plan.verdict)}};
  if (plan.sweep) {
    Json layouts = Json::array();
    for (const signatures::LayoutChoice& choice : plan.sweep->choices) layouts.push_back({{"layout", choice.text}, {"need", need_json(choice.need)}});
    out["sweep"] = {{"tried", plan.sweep->tried},
                    {"fit", layouts},
                    {"nearest", plan.sweep->nearest ? Json{{"layout", plan.sweep->nearest->text}, {"short_by_bytes", plan.sweep->nearest->need.short_by.count()}} : Json(nullptr)}};
  }
  return out;
}

}  // namespace triage::daemon
