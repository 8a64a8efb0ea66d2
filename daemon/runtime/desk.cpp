#include "daemon/runtime/desk.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <set>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/block_scanner.hpp"
#include "daemon/pipeline/intake.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/runtime/next_run.hpp"
#include "daemon/runtime/tail_text.hpp"

namespace triage::daemon {

using parsers::Status;
using parsers::TimePoint;

namespace {

constexpr auto kDumpLook = std::chrono::milliseconds(200);  // between two looks whether a dump is there
constexpr auto kSystemWindow = std::chrono::minutes(10);   // a kernel line belongs to a failure this near

// What an update is told for; anything else is stored without a word.
std::string shape_of(const JudgedIncident& incident) {
  const signatures::Diagnosis& d = incident.diagnosis;
  std::string shape = d.kind + '\n' + d.root.source + '\n' + std::to_string(d.root.line) + '\n' + std::string(signatures::phase_name(d.phase));
  if (!incident.plan.fixes.empty()) shape += '\n' + incident.plan.fixes.front().id;
  return shape;
}

bool tells(const signatures::Finding& finding) {
  using signatures::Role;
  return finding.role != Role::fact && finding.role != Role::progress && finding.role != Role::advice;
}

// The end of a line stays where it is.
void mask_lines(std::vector<SpoolLine>& lines, const MaskOptions& options) {
  for (SpoolLine& line : lines) line.text = mask_text(line.text, options);
}

// What judgement and store get to see. Names of files stay: they are read again by them.
void mask_news(SourceNews& news, const MaskOptions& options) {
  mask_lines(news.spool, options);
  if (news.tail) mask_lines(*news.tail, options);
  if (news.dump)
    for (signatures::Finding& finding : news.dump->findings)
      for (std::string* const text : {&finding.text, &finding.message, &finding.summary}) *text = mask_text(*text, options);
}

void earlier(std::optional<TimePoint>& at, TimePoint time) { at = at ? std::min(*at, time) : time; }

}  // namespace

Desk::Desk(std::shared_ptr<const Knowledge> knowledge, db::LiveStore& store, DeskOptions options, Alerts alerts, Observer observer, ReadDump read_dump)
    : knowledge_(std::move(knowledge)),
      store_(store),
      options_(std::move(options)),
      alerts_(std::move(alerts)),
      observer_(std::move(observer)),
      read_dump_(std::move(read_dump)),
      scanner_(std::make_unique<BlockScanner>(*knowledge_)) {}

Desk::~Desk() = default;

void Desk::use(std::shared_ptr<const Knowledge> knowledge) {
  knowledge_ = std::move(knowledge);
  scanner_ = std::make_unique<BlockScanner>(*knowledge_);
  rejudge_ = true;
}

// ---- sources and jobs

Desk::Job& Desk::job_of(const signatures::SourceInfo& info) {
  std::string name = info.job;
  if (info.system) name = "system " + info.node;
  if (name.empty()) name = job_key(info.name);
  if (name.empty()) name = info.name;
  Job& job = job_named(name, info.attempt.value_or(1));
  job.system = info.system;
  if (job.system) system_.insert(&job);
  return job;
}

Desk::Job& Desk::job_named(const std::string& name, int attempt) {
  auto& job = jobs_[{name, attempt}];
  if (!job) {
    job = std::make_unique<Job>();
    job->name = name;
    job->attempt = attempt;
    job->number = numbers_++;
  }
  return *job;
}

// The incidents of the job that an earlier run of the service, or this one before it let go of the job, has stored.
void Desk::recall(Job& job) {
  if (std::exchange(job.recalled, true)) return;
  const auto tracked = store_.tracked_of(job.name);
  if (!tracked.ok()) {
    job.recalled = false;
    return;
  }
  for (const db::TrackedIncident& one : *tracked) {
    if (one.attempt != job.attempt) continue;
    if (std::any_of(job.incidents.begin(), job.incidents.end(), [&](const Known& known) { return known.tracked.id == one.id; })) continue;
    const auto kept = store_.find(one.id);
    if (!kept.ok()) continue;
    Known known;
    known.tracked = one;
    known.answer = kept->answer;
    known.fingerprint = kept->row.fingerprint;
    known.failed_step = kept->row.step;
    known.restored = true;
    if (auto evidence = evidence_of_answer(kept->answer); evidence.ok()) known.evidence = std::move(*evidence);
    open_ += known.tracked.closed ? 0 : 1;
    job.incidents.push_back(std::move(known));
  }
}

// Earlier attempts of the job that failed.
void Desk::look_back(const Job& job) {
  const auto tracked = store_.tracked_of(job.name);
  if (!tracked.ok()) return;
  for (const db::TrackedIncident& one : *tracked)
    if (one.attempt < job.attempt) recall(job_named(one.job, one.attempt));
}

// Jobs without news for long are let go of; what is told of them later finds their incidents in the store.
void Desk::forget(TimePoint now) {
  if (now < forget_at_) return;
  forget_at_ = now + std::chrono::minutes(10);
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const Job& job = *at->second;
    const bool over = now >= job.news_at + options_.forget && !job.judge_at && !job.settle_at && !job.close_at && !job.cool_at &&
                      std::all_of(job.incidents.begin(), job.incidents.end(), [](const Known& known) { return known.tracked.closed; }) &&
                      std::none_of(job.sources.begin(), job.sources.end(), [](const Source* source) { return source->changed; });
    if (!over) {
      ++at;
      continue;
    }
    for (const Source* const source : job.sources) sources_.erase({source->row.name, source->row.generation});
    system_.erase(at->second.get());
    at = jobs_.erase(at);
  }
}

Desk::Source& Desk::source_of(const db::WatchedRow& row, const signatures::SourceInfo& info) {
  auto& source = sources_[{row.name, row.generation}];
  if (!source) {
    source = std::make_unique<Source>();
    source->info = info;
    source->job = &job_of(info);
    source->job->sources.push_back(source.get());
  }
  return *source;
}

parsers::Status Desk::restore(TimePoint now) {
  TRIAGE_TRY(const std::vector<db::WatchedRow> rows, store_.watched());
  for (const db::WatchedRow& row : rows) {
    Source& source = source_of(row, source_of_row(row));
    source.row = row;
    source.restored = true;
    source.job->news_at = now;
  }
  TRIAGE_TRY(const std::vector<db::TrackedIncident> open, store_.tracked_open());
  for (const db::TrackedIncident& tracked : open) {
    Job& job = job_named(tracked.job, tracked.attempt);
    recall(job);
    earlier(job.settle_at, now + options_.settle);
    job.close_at = now + options_.quiet;
    schedule(job);
  }
  return parsers::done();
}

void Desk::accept(SourceNews& news, TimePoint now) {
  if (options_.mask) mask_news(news, *options_.mask);
  if (news.again) {
    const auto known = sources_.find({news.row.name, news.row.generation});
    if (known == sources_.end() || !known->second->asked_at) return;
    known->second->asked_at.reset();
    known->second->findings = std::make_shared<const signatures::SourceFindings>(news.dump ? std::move(*news.dump) : signatures::SourceFindings{});
    return;
  }
  Source& source = source_of(news.row, news.info);
  const std::int64_t id = source.row.id;
  source.row = std::move(news.row);
  source.row.id = id;
  source.row.job = source.job->name;
  source.row.node = source.info.node;
  source.row.attempt = source.job->attempt;
  source.row.rank = source.info.rank;
  source.row.local_rank = source.info.local_rank;
  if (!source.changed) {
    source.changed = true;
    dirty_.push_back(&source);
  }
  Job& job = *source.job;
  job.news_at = now;
  const bool told = news.telling > 0 ||
                    (news.dump && (std::any_of(news.dump->findings.begin(), news.dump->findings.end(), tells) ||
                                   std::any_of(news.dump->snapshots.begin(), news.dump->snapshots.end(), [](const auto& facts) { return facts->failure.has_value(); })));
  source.telling += news.telling;
  for (signatures::Lost& lost : news.lost) source.lost.push_back(std::move(lost));
  if (news.tail) source.tail = std::move(*news.tail);
  if (source.warm) {
    source.lines.insert(source.lines.end(), news.spool.begin(), news.spool.end());
    source.findings.reset();
  }
  for (SpoolLine& line : news.spool) source.unstored.push_back(std::move(line));
  if (news.dump) source.asked_at.reset();
  if (news.dump) source.findings = std::make_shared<const signatures::SourceFindings>(std::move(*news.dump));
  if (news.step) source.step = news.step;

  const bool open = std::any_of(job.incidents.begin(), job.incidents.end(), [](const Known& known) { return !known.tracked.closed; });
  if (told) {
    if (!job.told_at) job.told_at = source.row.seen_at;
    const TimePoint soonest = std::max(now, job.judged_at + options_.judge_gap);
    earlier(job.judge_at, job.system ? std::max(soonest, now + options_.system_wait) : soonest);
    if (open) job.close_at = now + options_.quiet;
  }
  if (news.step) follow(job, *news.step, now);
  schedule(job);
}

// ---- the findings of a source, out of its lines

void Desk::warm(Source& source) {
  if (source.warm) return;
  source.warm = true;
  source.lines.clear();
  if (source.row.id != 0)
    if (auto stored = store_.spool(source.row.id); stored.ok()) source.lines = std::move(*stored);
  if (source.tail.empty() && source.row.id != 0)
    if (auto tail = store_.tail(source.row.id); tail.ok()) source.tail = lines_of_tail(*tail);
  source.lines.insert(source.lines.end(), source.unstored.begin(), source.unstored.end());
}

void Desk::cool(Job& job) {
  for (Source* const source : job.sources) {
    source->warm = false;
    source->lines = {};
    source->tail = {};
    source->findings.reset();
  }
}

std::shared_ptr<const signatures::SourceFindings> Desk::findings_of(Source& source) {
  if (source.findings) return source.findings;
  if (source.info.dump) return std::make_shared<const signatures::SourceFindings>();   // it could not be read again
  warm(source);
  std::vector<SpoolLine> lines = source.lines;
  lines.insert(lines.end(), source.tail.begin(), source.tail.end());
  Intake intake(knowledge_, source.info, options_.default_year);
  replay(in_order(std::move(lines)), *scanner_, intake);
  signatures::SourceFindings found = intake.finish();
  found.source.bytes = source.row.offset;
  found.source.lines = std::max(found.source.lines, source.row.lines);
  found.last_line = std::max(found.last_line, source.row.lines);
  found.lost.insert(found.lost.end(), source.lost.begin(), source.lost.end());
  source.findings = std::make_shared<const signatures::SourceFindings>(std::move(found));
  return source.findings;
}

// Kernel and journal lines of the nodes of a job, near its failure in time.
void Desk::add_system(const Job& job, std::vector<signatures::SourceFindings>& sources) {
  std::set<std::string> nodes;
  std::optional<TimePoint> first, last;
  for (const signatures::SourceFindings& source : sources) {
    if (!source.source.node.empty()) nodes.insert(source.source.node);
    nodes.insert(source.nodes.begin(), source.nodes.end());
    for (const signatures::Finding& finding : source.findings) {
      if (!tells(finding) || !finding.time) continue;
      first = first ? std::min(*first, *finding.time) : *finding.time;
      last = last ? std::max(*last, *finding.time) : *finding.time;
    }
    if (source.last_time) last = last ? std::max(*last, *source.last_time) : *source.last_time;
  }
  if (job.system) return;
  for (Job* const system : system_) {
    for (Source* const source : system->sources) {
      if ((source->telling == 0 && !source->restored) || (!nodes.empty() && !source->info.node.empty() && !nodes.contains(source->info.node))) continue;
      signatures::SourceFindings near = *findings_of(*source);
      std::erase_if(near.findings, [&](const signatures::Finding& finding) {
        return finding.time && last && (*finding.time > *last + kSystemWindow || *finding.time < first.value_or(*last) - kSystemWindow);
      });
      if (!near.findings.empty()) sources.push_back(std::move(near));
    }
  }
}

bool Desk::told_elsewhere(const Job& system, const signatures::Diagnosis& diagnosis) const {
  for (const auto& [key, job] : jobs_) {
    if (job->incidents.empty() || job.get() == &system) continue;
    for (const Known& known : job->incidents)
      if (known.evidence.contains({diagnosis.root.source, diagnosis.root.line})) return true;
  }
  return false;
}

// ---- judging

void Desk::judge(Job& job, bool whole, TimePoint now) {
  recall(job);
  std::vector<signatures::SourceFindings> sources;
  const auto quiet = [](const Source& source) { return !source.info.dump && source.telling == 0; };
  // In haste only the lowest of the ranks that told nothing is taken along: it is the one that prints the configuration.
  const Source* lowest = nullptr;
  for (const Source* const source : job.sources)
    if (quiet(*source) && (!lowest || source->info.rank.value_or(INT_MAX) < lowest->info.rank.value_or(INT_MAX))) lowest = source;
  for (Source* const source : job.sources) {
    if (!whole && quiet(*source) && source != lowest) continue;
    sources.push_back(*findings_of(*source));
  }
  add_system(job, sources);
  job.judged_at = now;
  track(job, judge_job(*knowledge_, std::move(sources), now), now);
  job.told_at.reset();
}

void Desk::track(Job& job, Answer answer, TimePoint now) {
  std::vector<Evidence> found;
  std::vector<const Evidence*> before;
  for (const JudgedIncident& incident : answer.incidents) found.push_back(evidence_of(incident.diagnosis));
  for (const Known& known : job.incidents) before.push_back(&known.evidence);
  const std::vector<int> same = match_evidence(found, before);
  for (std::size_t i = 0; i < answer.incidents.size(); ++i) {
    JudgedIncident& incident = answer.incidents[i];
    if (same[i] < 0 && job.system && told_elsewhere(job, incident.diagnosis)) continue;
    if (incident.diagnosis.job.empty() && !job.system) incident.diagnosis.job = job.name;
    learn(incident);
    Known fresh;
    Known* known = same[i] >= 0 ? &job.incidents[static_cast<std::size_t>(same[i])] : &fresh;
    if (same[i] < 0) {
      known->tracked.id = incident.diagnosis.id;
      known->tracked.job = job.name;
      known->tracked.attempt = job.attempt;
      known->tracked.opened_at = now;
    }
    incident.diagnosis.id = known->tracked.id;
    if (job.attempt > 1 && incident.diagnosis.attempt == 1) incident.diagnosis.attempt = job.attempt;
    const auto json = incident_json(incident);
    std::string text = json_text(options_.mask ? mask_json(json, *options_.mask, "source") : json, -1);
    known->evidence.insert(found[i].begin(), found[i].end());
    if (text == known->answer) continue;
    const std::string shape = shape_of(incident);
    std::string event;
    if (known->tracked.revision == 0) event = "opened";
    else if (shape != known->shape && !known->restored) event = "updated";
    known->restored = false;
    known->shape = shape;
    known->answer = text;
    known->fingerprint = incident.diagnosis.fingerprint;
    known->failed_step = incident.diagnosis.root.step;
    known->tracked.changed_at = now;
    if (!event.empty()) ++known->tracked.revision;
    Judged judged;
    judged.incident = std::make_unique<JudgedIncident>(std::move(incident));
    judged.tracked = known->tracked;
    judged.event = event;
    judged.answer = std::move(text);
    judged.since = job.told_at;
    put(std::move(judged));
    if (same[i] < 0) {
      job.incidents.push_back(std::move(fresh));
      ++open_;
      earlier(job.settle_at, now + options_.settle);
      job.close_at = now + options_.quiet;
    }
  }
}

// One waiting change an incident: a newer one takes the place of one that no commit has taken, but an opening stays an opening.
void Desk::put(Judged judged) {
  const auto waiting = std::find_if(unstored_.begin(), unstored_.end(), [&](const Judged& other) { return other.tracked.id == judged.tracked.id; });
  if (waiting == unstored_.end()) {
    unstored_.push_back(std::move(judged));
    return;
  }
  if (waiting->event == "opened" || judged.event.empty()) judged.event = waiting->event;
  if (waiting->since) judged.since = waiting->since;
  judged.closes = judged.closes || waiting->closes;
  judged.planned = judged.planned || waiting->planned;
  *waiting = std::move(judged);
}

void Desk::close(Job& job, TimePoint now) {
  judge(job, true, now);
  for (Known& known : job.incidents) {
    if (known.tracked.closed) continue;
    known.tracked.closed = true;
    --open_;
    known.tracked.changed_at = now;
    ++known.tracked.revision;
    const auto waiting = std::find_if(unstored_.begin(), unstored_.end(), [&](const Judged& other) { return other.tracked.id == known.tracked.id; });
    if (waiting != unstored_.end()) {
      waiting->tracked = known.tracked;
      waiting->closes = true;
    } else {
      Judged judged;
      judged.tracked = known.tracked;
      judged.answer = known.answer;
      judged.closes = true;
      unstored_.push_back(std::move(judged));
    }
  }
  job.cool_at = now + options_.late;
  cool(job);
}

// What helped before, for the same cause, comes first and says so.
void Desk::learn(JudgedIncident& incident) {
  const auto records = store_.fix_records(incident.diagnosis.fingerprint);
  if (!records.ok() || records->empty()) return;
  auto& fixes = incident.plan.fixes;
  const auto share = [&](const signatures::Fix& fix) {
    const auto record = std::find_if(records->begin(), records->end(), [&](const db::FixRecord& r) { return !r.fix.empty() && r.fix == fix.id; });
    return record == records->end() || record->tried == 0 ? -1.0 : static_cast<double>(record->helped) / static_cast<double>(record->tried);
  };
  for (signatures::Fix& fix : fixes)
    for (const db::FixRecord& record : *records)
      if (record.fix == fix.id && record.tried > 0)
        fix.why = "Helped " + std::to_string(record.helped) + " of " + std::to_string(record.tried) + " times here. " + fix.why;
  std::stable_sort(fixes.begin(), fixes.end(), [&](const signatures::Fix& a, const signatures::Fix& b) {
    const double x = share(a), y = share(b);
    return (x >= 0.5 ? x : 0.0) > (y >= 0.5 ? y : 0.0);
  });
  int position = 0;
  for (signatures::Fix& fix : fixes) fix.rank = ++position;
}

// A later attempt of the same job passed, or failed again at, the step where an earlier one died.
void Desk::follow(Job& job, std::int64_t step, TimePoint now) {
  if (job.attempt <= 1) return;
  if (!std::exchange(job.looked_back, true)) look_back(job);
  for (auto before = jobs_.lower_bound({job.name, 0}); before != jobs_.end() && before->first.first == job.name && before->first.second < job.attempt; ++before)
    for (Known& known : before->second->incidents) {
      if (step <= known.failed_step.value_or(0)) continue;   // none known: it had not finished one
      if (!known.followed) {
        const auto stored = store_.followed(known.tracked.id);
        if (!stored.ok()) continue;             // asked again with the next step
        known.followed = *stored;
      }
      if (*known.followed) continue;
      known.followed = true;
      parsers::RunConfig latest;
      for (Source* const source : job.sources) {
        if (source->info.dump || !latest.empty()) continue;
        latest = findings_of(*source)->config;
      }
      auto next = compare_runs(known.answer, latest, knowledge_->fixes());
      if (!next) continue;
      next->incident = known.tracked.id;
      next->fingerprint = known.fingerprint;
      next->job = job.name;
      next->attempt = job.attempt;
      next->helped = true;
      next->at = now;
      ++known.tracked.revision;
      Judged judged;
      judged.tracked = known.tracked;
      judged.event = "next_run";
      judged.answer = known.answer;
      judged.next_run = std::move(*next);
      unstored_.push_back(std::move(judged));
    }
}

// ---- time and the store

void Desk::plan(OutboxPlan plan) {
  plan_.withdraw.insert(plan_.withdraw.end(), plan.withdraw.begin(), plan.withdraw.end());
  // What was put and not stored yet is taken back at once.
  std::erase_if(plan_.put, [&](const db::OutboxItem& item) {
    return std::any_of(plan.withdraw.begin(), plan.withdraw.end(), [&](const db::OutboxKey& key) {
      return key.sink == item.sink && key.incident == item.incident && key.event == item.event && key.revision == item.revision;
    });
  });
  plan_.put.insert(plan_.put.end(), std::make_move_iterator(plan.put.begin()), std::make_move_iterator(plan.put.end()));
}

std::optional<TimePoint> Desk::next_due() const { return due_.empty() ? std::nullopt : std::optional(due_.begin()->first.first); }

// After each change of a time that the job waits for.
void Desk::schedule(Job& job) {
  std::optional<TimePoint> next;
  for (const auto& at : {job.judge_at, job.settle_at, job.close_at, job.cool_at})
    if (at) earlier(next, *at);
  if (next == job.due) return;
  if (job.due) due_.erase({*job.due, job.number});
  job.due = next;
  if (next) due_[{*next, job.number}] = &job;
}

// False: a dump of the job is being read again; until it is, or for options_.dump, a judgement would miss what it says.
bool Desk::has_dumps(Job& job, TimePoint now) {
  bool all = true;
  for (Source* const source : job.sources) {
    if (!source->info.dump || source->findings) continue;
    if (!source->asked_at) {
      source->asked_at = now;
      read_dump_(source->info);
    }
    all = all && now >= *source->asked_at + options_.dump;
  }
  return all;
}

// What is due of a job.
void Desk::turn(Job& job, TimePoint now) {
  const auto due = [now](const std::optional<TimePoint>& at) { return at && *at <= now; };
  if ((due(job.close_at) || due(job.settle_at) || due(job.judge_at)) && !has_dumps(job, now)) {
    for (auto* const at : {&job.judge_at, &job.settle_at, &job.close_at})
      if (due(*at)) *at = now + kDumpLook;
  }
  if (due(job.close_at)) {
    job.close_at.reset();
    job.judge_at.reset();
    job.settle_at.reset();
    close(job, now);
  } else if (due(job.settle_at)) {
    job.settle_at.reset();
    job.judge_at.reset();
    judge(job, true, now);
  } else if (due(job.judge_at)) {
    job.judge_at.reset();
    judge(job, false, now);
  }
  if (due(job.cool_at)) {
    job.cool_at.reset();
    cool(job);
  }
}

// The clock was set back: what waits goes on waiting as long as before.
void Desk::set_back(TimePoint::duration by) {
  for (const auto& [key, job] : jobs_) {
    for (auto* const at : {&job->judge_at, &job->settle_at, &job->close_at, &job->cool_at})
      if (*at) **at -= by;
    job->judged_at -= by;
    job->news_at -= by;
    schedule(*job);
  }
  for (const auto& [key, source] : sources_)
    if (source->asked_at) *source->asked_at -= by;
  forget_at_ -= by;
}

Status Desk::take(std::vector<SourceNews> news, TimePoint now) {
  if (now < now_) set_back(now_ - now);
  now_ = now;
  for (SourceNews& one : news) {
    accept(one, now);
    if (one.committed) held_.push_back({std::move(one.committed), one.must_last});
  }
  if (std::exchange(rejudge_, false))
    for (const auto& [key, job] : jobs_) {
      if (std::all_of(job->incidents.begin(), job->incidents.end(), [](const Known& known) { return known.tracked.closed; })) continue;
      for (Source* const source : job->sources)
        if (!source->info.dump) source->findings.reset();
      earlier(job->settle_at, now);
      schedule(*job);
    }
  std::vector<Job*> due;                        // first all of them: a turn may set a time of its job that is due, too
  for (auto at = due_.begin(); at != due_.end() && at->first.first <= now; ++at) due.push_back(at->second);
  for (Job* const job : due) {
    turn(*job, now);
    schedule(*job);
  }
  TRIAGE_CHECK(commit(now));
  forget(now);
  return parsers::done();
}

Status Desk::commit(TimePoint now) {
  if (dirty_.empty() && unstored_.empty() && plan_.put.empty() && plan_.withdraw.empty()) return parsers::done();
  db::LiveBatch batch;
  batch.now = now;
  batch.rules = {knowledge_->rules->hash(), program_version()};
  batch.flush = std::any_of(held_.begin(), held_.end(), [](const Held& held) { return held.must_last; });
  for (Source* const source : dirty_) {
    source->row.tail = text_of_tail(source->tail);
    batch.sources.push_back({source->row, source->unstored, {}});
  }
  std::vector<std::pair<const Judged*, std::string>> told;
  for (const Judged& judged : unstored_) {
    batch.tracked.push_back(judged.tracked);
    if (judged.incident) batch.incidents.push_back({judged.incident->diagnosis, judged.incident->plan, judged.answer});
    if (judged.next_run) batch.next_runs.push_back(*judged.next_run);
    if (!judged.event.empty()) told.emplace_back(&judged, judged.event);
    if (judged.closes) told.emplace_back(&judged, "closed");
  }
  const auto change = [](const Judged& judged, const std::string& event) {
    return IncidentChange{judged.tracked, event, judged.answer, judged.next_run ? &*judged.next_run : nullptr, judged.since};
  };
  for (const auto& [judged, event] : told)
    if (!judged->planned) plan(alerts_(change(*judged, event), now));
  for (Judged& judged : unstored_) judged.planned = true;
  batch.withdraw = plan_.withdraw;
  batch.outbox = plan_.put;
  TRIAGE_CHECK(store_.commit(batch));

  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    dirty_[i]->row.id = batch.sources[i].row.id;
    dirty_[i]->row.tail.reset();
    dirty_[i]->unstored = {};
    dirty_[i]->changed = false;
    if (!dirty_[i]->warm) dirty_[i]->tail = {};
  }
  dirty_.clear();
  for (const auto& [judged, event] : told) observer_(change(*judged, event));
  unstored_.clear();
  plan_ = {};
  for (Held& held : std::exchange(held_, {})) held.committed(true);
  return parsers::done();
}

}  // namespace triage::daemon
