#include "daemon/pipeline/triage.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "daemon/pipeline/source_name.hpp"
#include "signatures/plan/forecast.hpp"
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

namespace {

// A failure of another rank of a job that is judged already: its snapshot stands beside one that was joined, of about the same time.
bool of_judged_job(const signatures::SnapshotFacts& snapshot, const signatures::Snapshots& all, const std::vector<bool>& used) {
  constexpr auto kSameFailure = std::chrono::minutes(10);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const signatures::SnapshotFacts& other = *all[i];
    if (!used[i] || !other.failure || folder_of(other.source.name) != folder_of(snapshot.source.name)) continue;
    if (!snapshot.source.rank || !other.source.rank || *snapshot.source.rank == *other.source.rank) continue;
    if (!snapshot.failure->time || !other.failure->time) continue;
    const auto apart = *snapshot.failure->time - *other.failure->time;
    if (apart <= kSameFailure && -apart <= kSameFailure) return true;
  }
  return false;
}

void judge_jobs(std::vector<std::vector<signatures::SourceFindings>> jobs, parsers::TimePoint now, Answer& answer) {
  for (std::vector<signatures::SourceFindings>& job : jobs) {
    signatures::Judgement judgement = signatures::judge(std::move(job), signatures::VerdictOptions{now});
    for (signatures::Diagnosis& diagnosis : judgement.diagnoses) answer.incidents.push_back({std::move(diagnosis), {}});
    for (signatures::Handled& handled : judgement.handled) answer.handled.push_back(std::move(handled));
    for (signatures::Lost& lost : judgement.lost) answer.lost.push_back(std::move(lost));
  }
}

std::vector<bool> join(Answer& answer, std::size_t first, const signatures::Snapshots& snapshots) {
  std::vector<signatures::Diagnosis*> diagnoses;
  for (std::size_t i = first; i < answer.incidents.size(); ++i) diagnoses.push_back(&answer.incidents[i].diagnosis);
  return signatures::join_snapshots(diagnoses, snapshots);
}

void count_sources(const std::vector<signatures::SourceFindings>& sources, Answer& answer) {
  for (const signatures::SourceFindings& source : sources) {
    answer.sources.push_back(source.source);
    answer.stats.files += 1;
    answer.stats.bytes += source.source.bytes;
    answer.stats.lines += source.source.lines;
  }
}

// A snapshot, of whatever device.
bool only_joins(const signatures::SourceFindings& source) { return source.source.dump && source.findings.empty(); }

// Takes the snapshots out of the sources: they have no findings of their own, and join what the others give.
signatures::Snapshots take_snapshots(std::vector<signatures::SourceFindings>& sources, Answer& answer) {
  signatures::Snapshots out;
  for (signatures::SourceFindings& source : sources) {
    if (!only_joins(source)) continue;
    for (const auto& facts : source.snapshots) {
      auto named = std::make_shared<signatures::SnapshotFacts>(*facts);
      named->source = source.source;   // as the caller names it
      out.push_back(std::move(named));
    }
    std::move(source.lost.begin(), source.lost.end(), std::back_inserter(answer.lost));
  }
  std::erase_if(sources, only_joins);
  return out;
}

Answer answer_of(const Knowledge& knowledge, std::vector<std::vector<signatures::SourceFindings>> jobs, parsers::TimePoint now,
                 const signatures::Snapshots& snapshots, Answer answer) {
  judge_jobs(std::move(jobs), now, answer);
  if (!snapshots.empty()) {
    const std::vector<bool> used = join(answer, 0, snapshots);
    signatures::Snapshots alone;
    for (std::size_t i = 0; i < snapshots.size(); ++i)
      if (!used[i] && snapshots[i]->failure && !of_judged_job(*snapshots[i], snapshots, used)) alone.push_back(snapshots[i]);
    std::vector<signatures::SourceFindings> failures;
    for (const auto& snapshot : alone) failures.push_back(signatures::findings_of(*snapshot));
    const std::size_t first = answer.incidents.size();
    judge_jobs(jobs_of(std::move(failures)), now, answer);
    (void)join(answer, first, alone);
  }
  for (JudgedIncident& incident : answer.incidents) {
    signatures::Diagnosis& diagnosis = incident.diagnosis;
    incident.plan = signatures::plan_fixes(diagnosis, knowledge.fixes());
    if (!diagnosis.composition.empty() || diagnosis.kind != "gpu.oom.capacity") continue;   // a snapshot measured it
    if (incident.plan.forecast) diagnosis.composition = signatures::modelled_composition(*incident.plan.forecast);
  }
  return answer;
}

}  // namespace

void tell_empty(Answer& answer) {
  for (const signatures::SourceInfo& source : answer.sources) {
    if (source.bytes > 0) continue;
    signatures::Lost lost;
    lost.source = source.name;
    lost.what = "an empty file (0 bytes)";
    lost.count = 1;
    answer.lost.push_back(std::move(lost));
  }
}

Answer judge_sources(const Knowledge& knowledge, std::vector<signatures::SourceFindings> sources, parsers::TimePoint now) {
  Answer answer;
  count_sources(sources, answer);
  const signatures::Snapshots snapshots = take_snapshots(sources, answer);
  return answer_of(knowledge, jobs_of(std::move(sources)), now, snapshots, std::move(answer));
}

Answer judge_job(const Knowledge& knowledge, std::vector<signatures::SourceFindings> sources, parsers::TimePoint now) {
  Answer answer;
  count_sources(sources, answer);
  const signatures::Snapshots snapshots = take_snapshots(sources, answer);
  std::vector<std::vector<signatures::SourceFindings>> jobs;
  jobs.push_back(std::move(sources));
  return answer_of(knowledge, std::move(jobs), now, snapshots, std::move(answer));
}

}  // namespace triage::daemon
