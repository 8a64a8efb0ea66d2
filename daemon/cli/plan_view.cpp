#include "daemon/cli/plan_view.hpp"

#include <algorithm>
#include <cstdio>

#include "parsers/base/quantity.hpp"

namespace triage::daemon {

using parsers::Bytes;
using parsers::bytes_text;
using signatures::memory::StageEstimate;
using signatures::memory::Term;

namespace {

constexpr std::size_t kBar = 40;             // columns of the widest bar
constexpr std::size_t kTerms = 10;

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// '#' is what stays between steps, '=' what comes on top at the peak, '|' where the card ends.
std::string bar(Bytes stays, Bytes peak, Bytes scale, const std::optional<Bytes>& capacity) {
  const auto columns = [&](Bytes bytes) {
    const double share = scale.count() > 0 ? static_cast<double>(bytes.count()) / static_cast<double>(scale.count()) : 0;
    return static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBar) + 0.5);
  };
  const std::size_t base = columns(std::min(stays, peak)), top = columns(peak);
  std::string out = std::string(base, '#') + std::string(top - base, '=') + std::string(kBar - top, ' ');
  if (capacity) {
    const std::size_t end = columns(*capacity);
    if (end < out.size()) out[end] = '|';
    else out += '|';
  }
  return out;
}

void stages(const MemoryPlan& plan, std::string& out) {
  Bytes scale = plan.capacity.value_or(Bytes());
  for (const StageEstimate& stage : plan.forecast->estimate().stages) scale = std::max(scale, stage.peak_allocated.mid);
  out += "stage  layers  between steps        peak  in\n";
  for (const StageEstimate& stage : plan.forecast->estimate().stages) {
    if (plan.pipeline_rank && *plan.pipeline_rank != stage.pipeline_rank) continue;
    char line[200];
    std::snprintf(line, sizeof line, "%5lld  %6zu  %13s  %10s  %-14s ", static_cast<long long>(stage.pipeline_rank), stage.layers.size(),
                  bytes_text(stage.static_bytes).c_str(), bytes_text(stage.peak_allocated.mid).c_str(), std::string(phase_name(stage.peak_phase)).c_str());
    out += line + bar(stage.static_bytes, stage.peak_allocated.mid, scale, plan.capacity) + "\n";
  }
}

const StageEstimate& shown_stage(const MemoryPlan& plan) {
  for (const StageEstimate& stage : plan.forecast->estimate().stages)
    if (plan.pipeline_rank && *plan.pipeline_rank == stage.pipeline_rank) return stage;
  return plan.forecast->estimate().highest();
}

void terms(const MemoryPlan& plan, std::string& out) {
  const StageEstimate& stage = shown_stage(plan);
  std::vector<Term> sorted = stage.terms;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Term& a, const Term& b) { return a.mid > b.mid; });
  out += "\nat the peak of stage " + std::to_string(stage.pipeline_rank) + "\n";
  std::size_t shown = 0;
  for (const Term& term : sorted) {
    if (term.mid.count() == 0 || ++shown > kTerms) continue;
    out += "  " + padded(term.name + (term.outside ? " (outside)" : ""), 24) + padded(bytes_text(term.mid), 12);
    if (term.low != term.high) out += padded(" " + bytes_text(term.low) + " to " + bytes_text(term.high), 26);
    out += term.note.empty() ? "\n" : " " + one_line(term.note, 100) + "\n";
  }
}

void fixes(const MemoryPlan& plan, std::string& out) {
  if (plan.plan.fixes.empty()) return;
  out += "\nwhat changes give\n";
  for (const signatures::Fix& fix : plan.plan.fixes) {
    out += "  " + padded(fix.saving ? "-" + bytes_text(fix.saving->mid) : "?", 12) + padded(fix.predicted_peak ? bytes_text(*fix.predicted_peak) : "", 12) +
           padded(fix.fits ? (*fix.fits ? "fits" : "too big") : "", 9) + fix.title;
    if (fix.cost.step_time_high_percent) {
      char cost[40];
      std::snprintf(cost, sizeof cost, " (step time %+.0f %%)", *fix.cost.step_time_high_percent);
      out += cost;
    }
    out += "\n";
    if (!fix.apply.empty()) out += "      " + one_line(fix.apply.front().set, 200) + "\n";
  }
  if (!plan.plan.verdict.empty()) out += "  " + plan.plan.verdict + "\n";
}

void sweep(const signatures::Sweep& sweep, std::string& out) {
  out += "\nlayouts that fit, best first (" + std::to_string(sweep.tried) + " tried)\n";
  for (const signatures::LayoutChoice& choice : sweep.choices) out += "  " + padded(bytes_text(choice.need.peak.mid), 12) + choice.text + "\n";
  if (sweep.choices.empty())
    out += sweep.nearest ? "  none; nearest is " + sweep.nearest->text + ", short by " + bytes_text(sweep.nearest->need.short_by) + "\n" : "  none\n";
}

}  // namespace

std::string plan_text(const MemoryPlan& plan, const TextStyle& style) {
  std::string out;
  const signatures::Need& now = plan.forecast->now();
  out += "peak " + bytes_text(now.peak.mid);
  if (now.peak.low != now.peak.high) out += " (" + bytes_text(now.peak.low) + " to " + bytes_text(now.peak.high) + ")";
  if (plan.capacity)
    out += now.fits ? (now.fits_surely ? ", fits " : ", fits in the middle of the range ") + bytes_text(*plan.capacity)
                    : ", does not fit " + bytes_text(*plan.capacity) + ": short by " + bytes_text(now.short_by);
  else
    out += "; give --gpu or --capacity to know whether it fits";
  out += "\n\n";
  stages(plan, out);
  terms(plan, out);
  fixes(plan, out);
  if (plan.sweep) sweep(*plan.sweep, out);
  const auto& assumptions = plan.forecast->estimate().assumptions;
  if (!assumptions.empty()) out += "\nassumed\n";
  for (std::size_t i = 0; i < assumptions.size() && (style.all || i < 8); ++i) out += "  " + one_line(assumptions[i].text, 200) + "\n";
  if (assumptions.size() > 8 && !style.all) out += "  and " + std::to_string(assumptions.size() - 8) + " more (--format json)\n";
  for (const std::string& note : plan.forecast->calibration().notes) out += "  " + one_line(note, 200) + "\n";
  if (!plan.ignored.empty()) {
    out += "\nno part of the memory model, or not known; ignored: ";
    for (std::size_t i = 0; i < plan.ignored.size() && i < 12; ++i) out += (i ? ", " : "") + one_line(plan.ignored[i], 60);
    out += plan.ignored.size() > 12 ? ", ...\n" : "\n";
  }
  return out;
}

}  // namespace triage::daemon
