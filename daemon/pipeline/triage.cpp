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

bool says_something(const signatures::SourceFindings& source) {
  return !source.findings.empty() || !source.config.empty() || !source.progress.empty() || !source.memory.empty();
}

std::string folder_of(const std::string& name) {
  const auto slash = name.find_last_of("/!");
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

// Dumps (cores, flight recorder) go to the job of the logs beside them: to the only job that there is, else to the only one with a log in
// their folder. Without one, the dumps of a folder are a job of their own.
void join_dumps(std::vector<signatures::SourceFindings> dumps, std::vector<std::vector<signatures::SourceFindings>>& jobs) {
  std::vector<std::size_t> real;
  for (std::size_t j = 0; j < jobs.size(); ++j)
    if (std::any_of(jobs[j].begin(), jobs[j].end(), says_something)) real.push_back(j);
  std::map<std::string, std::vector<signatures::SourceFindings>> folders;
  for (signatures::SourceFindings& dump : dumps) folders[folder_of(dump.source.name)].push_back(std::move(dump));
  for (auto& [folder, found] : folders) {
    std::vector<std::size_t> candidates;
    for (const std::size_t j : real) {
      const std::string& wanted = folder;
      if (real.size() == 1 || std::any_of(jobs[j].begin(), jobs[j].end(), [&wanted](const auto& source) { return folder_of(source.source.name) == wanted; }))
        candidates.push_back(j);
    }
    auto& job = candidates.size() == 1 ? jobs[candidates.front()] : jobs.emplace_back();
    for (signatures::SourceFindings& dump : found) job.push_back(std::move(dump));
  }
}

// Sources of one job stay together, in their order. System logs (kernel, scheduler) are evidence for every job of the scan: they go to
// the only job there is; with several they are judged alone, since nothing here tells which job they belong to.
std::vector<std::vector<signatures::SourceFindings>> jobs_of(std::vector<signatures::SourceFindings> sources) {
  std::vector<std::vector<signatures::SourceFindings>> jobs;
  std::map<std::string, std::size_t> by_key;
  std::vector<signatures::SourceFindings> system, dumps;
  for (signatures::SourceFindings& source : sources) {
    if (of_system(source)) {
      system.push_back(std::move(source));
      continue;
    }
    if (source.source.dump) {
      dumps.push_back(std::move(source));
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
  join_dumps(std::move(dumps), jobs);
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
