#include "daemon/pipeline/triage.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "daemon/pipeline/source_name.hpp"
#include "signatures/plan/rank.hpp"
#include "signatures/verdict/incident_builder.hpp"

namespace triage::daemon {

namespace {

// A kernel, journal or scheduler log, by its name or by what was found in it.
bool of_system(const signatures::SourceFindings& source) {
  return source.source.system || (!source.findings.empty() && std::all_of(source.findings.begin(), source.findings.end(), [](const auto& finding) {
           return finding.system;
         }));
}

// Sources of one job stay together, in their order. System logs (kernel, scheduler) are evidence for every job of the scan: they go to
// the only job there is; with several they are judged alone, since nothing here tells which job they belong to.
std::vector<std::vector<signatures::SourceFindings>> jobs_of(std::vector<signatures::SourceFindings> sources) {
  std::vector<std::vector<signatures::SourceFindings>> jobs;
  std::map<std::string, std::size_t> by_key;
  std::vector<signatures::SourceFindings> system;
  for (signatures::SourceFindings& source : sources) {
    if (of_system(source)) {
      system.push_back(std::move(source));
      continue;
    }
    const std::string key = job_key(source.source.name);
    if (const auto job = by_key.find(key); !key.empty() && job != by_key.end()) {
      jobs[job->second].push_back(std::move(source));
      continue;
    }
    if (!key.empty()) by_key.emplace(key, jobs.size());
    jobs.emplace_back().push_back(std::move(source));
  }
  if (jobs.size() == 1) {
    for (signatures::SourceFindings& source : system) jobs.front().push_back(std::move(source));
  } else if (!system.empty()) {
    jobs.push_back(std::move(system));
  }
  return jobs;
}

}  // namespace

Answer judge_sources(const Knowledge& knowledge, std::vector<signatures::SourceFindings> sources, parsers::TimePoint now) {
  Answer answer;
  for (const signatures::SourceFindings& source : sources) {
    answer.sources.push_back(source.source);
    answer.stats.files += 1;
    answer.stats.bytes += source.source.bytes;
    answer.stats.lines += source.source.lines;
  }
  for (std::vector<signatures::SourceFindings>& job : jobs_of(std::move(sources))) {
    signatures::Judgement judgement = signatures::judge(std::move(job), signatures::VerdictOptions{now});
    for (signatures::Diagnosis& diagnosis : judgement.diagnoses) {
      signatures::Plan plan = signatures::plan_fixes(diagnosis, knowledge.fixes());
      answer.incidents.push_back({std::move(diagnosis), std::move(plan)});
    }
    for (signatures::Handled& handled : judgement.handled) answer.handled.push_back(std::move(handled));
    for (signatures::Lost& lost : judgement.lost) answer.lost.push_back(std::move(lost));
  }
  return answer;
}

}  // namespace triage::daemon
