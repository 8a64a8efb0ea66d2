#include "signatures/verdict/incident_builder.hpp"

#include <algorithm>
#include <map>

#include "signatures/verdict/attempts.hpp"
#include "signatures/verdict/clocks.hpp"
#include "signatures/verdict/diagnose.hpp"
#include "signatures/verdict/timeline.hpp"

namespace triage::signatures {
namespace {

// Sources of one attempt, by the number that their names give; logs of the node and the scheduler belong to all.
std::map<int, std::vector<SourceFindings>> by_attempt(std::vector<SourceFindings> sources) {
  std::map<int, std::vector<SourceFindings>> out;
  int last = 0;
  for (const auto& s : sources)
    if (s.source.attempt) last = std::max(last, *s.source.attempt);
  for (auto& s : sources) {
    const int attempt = s.source.attempt.value_or(last);
    out[attempt].push_back(std::move(s));
  }
  return out;
}

}  // namespace

Judgement judge(std::vector<SourceFindings> sources, const VerdictOptions&) {
  Judgement out;
  // The order of arrival must not count.
  std::stable_sort(sources.begin(), sources.end(), [](const SourceFindings& a, const SourceFindings& b) { return a.source.name < b.source.name; });
  std::string job;
  for (auto& s : sources) {
    if (job.empty()) job = s.source.job;
    for (auto& lost : s.lost) out.lost.push_back(std::move(lost));
    s.lost.clear();
    if (s.dropped_findings > 0) {
      Lost lost;
      lost.source = s.source.name;
      lost.what = "findings over the limit of one source";
      lost.count = s.dropped_findings;
      out.lost.push_back(std::move(lost));
    }
  }
  for (auto& [number, group] : by_attempt(std::move(sources))) {
    align_clocks(group);
    auto split = split_attempts(make_timeline(group), group);
    int attempt = std::max(number, 1);
    for (const auto& items : split.attempts) {
      if (auto diagnosis = diagnose(items, group, job, attempt)) out.diagnoses.push_back(std::move(*diagnosis));
      ++attempt;
    }
    for (auto& handled : split.handled) out.handled.push_back(std::move(handled));
  }
  return out;
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::unknown: return "unknown";
    case Phase::init: return "init";
    case Phase::load: return "load";
    case Phase::optimizer_init: return "optimizer_init";
    case Phase::forward: return "forward";
    case Phase::loss: return "loss";
    case Phase::backward: return "backward";
    case Phase::optimizer_step: return "optimizer_step";
    case Phase::comm: return "comm";
    case Phase::checkpoint: return "checkpoint";
    case Phase::eval: return "eval";
    case Phase::capture: return "capture";
    case Phase::compile: return "compile";
  }
  return "unknown";
}

std::string_view basis_name(Basis basis) {
  switch (basis) {
    case Basis::measured: return "MEASURED";
    case Basis::modelled: return "MODELLED";
    case Basis::rule: return "RULE";
  }
  return "RULE";
}

}  // namespace triage::signatures
