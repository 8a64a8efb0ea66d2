// Desk: the hub half of the service. Takes what the workers found, judges a job again when it told of a failure, and stores checkpoints,
// spools, incidents and what has to be told in one transaction. One thread; the time is an argument.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/alert/mask.hpp"
#include "daemon/pipeline/knowledge.hpp"
#include "daemon/pipeline/triage.hpp"
#include "daemon/runtime/evidence.hpp"
#include "daemon/runtime/news.hpp"
#include "db/live_store.hpp"

namespace triage::daemon {

struct DeskOptions {
  std::chrono::milliseconds judge_gap{250};     // at least so long between two judgements of a job
  std::chrono::milliseconds settle{1500};       // after the first: the whole job, with the ranks that told nothing
  std::chrono::seconds quiet{60};               // without a new telling line: the incident is closed
  std::chrono::minutes late{60};                // so long after closing, late lines and dumps still change it
  std::chrono::seconds system_wait{5};          // kernel findings wait so long for the job that they belong to
  std::chrono::minutes dump{10};                // a judgement waits so long for a dump that is read again
  std::chrono::hours forget{24};                // a job without news is let go of after this; the store brings it back
  int default_year = 1970;
  std::optional<MaskOptions> mask;              // lines and dumps are masked before anything of them is kept
  bool operator==(const DeskOptions&) const = default;
};

// A change of an incident that somebody may have to hear of.
struct IncidentChange {
  const db::TrackedIncident& tracked;
  std::string event;                            // opened, updated, closed, next_run
  const std::string& answer;                    // the incident as JSON
  const db::NextRun* next_run = nullptr;        // of next_run: what the later attempt showed
  std::optional<parsers::TimePoint> since;      // when the line was read that brought this about
};

// What a change does to the outbox: first what is taken back if it still waits, then what is put.
struct OutboxPlan {
  std::vector<db::OutboxKey> withdraw;
  std::vector<db::OutboxItem> put;
};

class Desk {
 public:
  using Alerts = std::function<OutboxPlan(const IncidentChange&, parsers::TimePoint now)>;
  // called after the commit.
  using Observer = std::function<void(const IncidentChange&)>;
  // Has a dump read again, by its name; what it says comes as news with `again` set. Returns at once.
  using ReadDump = std::function<void(const signatures::SourceInfo&)>;

  Desk(std::shared_ptr<const Knowledge> knowledge, db::LiveStore& store, DeskOptions options, Alerts alerts, Observer observer, ReadDump read_dump);
  ~Desk();

  // What the store knows from before. Jobs with an open incident are judged again soon.
  parsers::Status restore(parsers::TimePoint now);
  // Takes news and judges what is due. On an error nothing was stored; the same news are kept, and stored by the next call that succeeds.
  parsers::Status take(std::vector<SourceNews> news, parsers::TimePoint now);
  // When take({}, now) has something to do; empty: nothing waits.
  std::optional<parsers::TimePoint> next_due() const;
  // Something that is no change of an incident does to the outbox: a silence that was made. Stored with the next commit.
  void plan(OutboxPlan plan);
  // Other rules from now on; open incidents are judged again by them.
  void use(std::shared_ptr<const Knowledge> knowledge) ;

  std::size_t sources() const { return sources_.size(); }
  std::size_t open_incidents() const { return open_; }
  bool holds_unstored() const { return !held_.empty() || !unstored_.empty(); }

 private:
  struct Job;
  struct Source {
    db::WatchedRow row;
    signatures::SourceInfo info;
    Job* job = nullptr;
    std::uint64_t telling = 0;
    std::optional<std::int64_t> step;
    std::vector<SpoolLine> tail;
    std::vector<SpoolLine> unstored;            // new lines that no commit has taken yet
    bool changed = false;                       // row or lines are not stored yet
    bool restored = false;                      // known from the store: it may have told of a failure before
    std::optional<parsers::TimePoint> asked_at; // a dump that is being read again
    // Of a job that is being judged:
    bool warm = false;
    std::vector<SpoolLine> lines;               // all but the tail
    std::shared_ptr<const signatures::SourceFindings> findings;
    std::vector<signatures::Lost> lost;
  };
  struct Known {                                // an incident of a job
    db::TrackedIncident tracked;
    Evidence evidence;
    std::string answer, shape;                  // shape: what an update is told for: kind, root, phase, first fix
    std::string fingerprint;
    std::optional<std::int64_t> failed_step;
    std::optional<bool> followed;               // a later attempt was compared with it; empty: the store knows
    bool restored = false;                      // known from the store only
  };
  struct Job {
    std::string name;
    int attempt = 1;
    bool system = false;
    bool recalled = false;                      // its incidents of the store are in `incidents`
    bool looked_back = false;                   // those of earlier attempts are known
    parsers::TimePoint news_at;                 // the last ones
    std::vector<Source*> sources;
    std::vector<Known> incidents;
    std::optional<parsers::TimePoint> judge_at, settle_at, close_at, cool_at;
    std::uint64_t number = 0;                   // in the order in which they came
    std::optional<parsers::TimePoint> due;      // under this time it stands in due_
    std::optional<parsers::TimePoint> told_at;  // of the first telling line that no judgement has seen
    parsers::TimePoint judged_at;
  };
  struct Judged {                               // lives until the commit
    std::unique_ptr<JudgedIncident> incident;   // null: as it is stored
    db::TrackedIncident tracked;
    std::string event, answer;                  // event empty: nothing to tell
    std::optional<db::NextRun> next_run;
    std::optional<parsers::TimePoint> since;
    bool closes = false;                        // is told as closed, too
    bool planned = false;                       // what it does to the outbox stands in plan_
  };
  struct Held {
    std::function<void(bool)> committed;
    bool must_last = false;
  };

  Source& source_of(const db::WatchedRow& row, const signatures::SourceInfo& info);
  Job& job_of(const signatures::SourceInfo& info);
  Job& job_named(const std::string& name, int attempt);
  void recall(Job& job);
  void look_back(const Job& job);
  void forget(parsers::TimePoint now);
  void set_back(parsers::TimePoint::duration by);
  void accept(SourceNews& news, parsers::TimePoint now);
  void warm(Source& source);
  void cool(Job& job);
  std::shared_ptr<const signatures::SourceFindings> findings_of(Source& source);
  void schedule(Job& job);
  void turn(Job& job, parsers::TimePoint now);
  bool has_dumps(Job& job, parsers::TimePoint now);
  void judge(Job& job, bool whole, parsers::TimePoint now);
  void close(Job& job, parsers::TimePoint now);
  void track(Job& job, Answer answer, parsers::TimePoint now);
  void add_system(const Job& job, std::vector<signatures::SourceFindings>& sources);
  bool told_elsewhere(const Job& system, const signatures::Diagnosis& diagnosis) const;
  void learn(JudgedIncident& incident);
  void put(Judged judged);
  void follow(Job& job, std::int64_t step, parsers::TimePoint now);
  parsers::Status commit(parsers::TimePoint now);

  std::shared_ptr<const Knowledge> knowledge_;
  db::LiveStore& store_;
  const DeskOptions options_;
  const Alerts alerts_;
  const Observer observer_;
  const ReadDump read_dump_;
  std::unique_ptr<class BlockScanner> scanner_;
  bool rejudge_ = false;
  parsers::TimePoint forget_at_{}, now_{};
  std::map<std::pair<std::string, std::uint64_t>, std::unique_ptr<Source>> sources_;   // by name and generation
  std::map<std::pair<std::string, int>, std::unique_ptr<Job>> jobs_;                   // by name and attempt
  std::map<std::pair<parsers::TimePoint, std::uint64_t>, Job*> due_;                   // those that wait for a time, by it and their number
  std::set<Job*> system_;                       // those of kernel logs and journals
  std::uint64_t numbers_ = 0;
  std::size_t open_ = 0;                        // incidents
  std::vector<Judged> unstored_;                // judged, not stored yet
  OutboxPlan plan_;                             // of them
  std::vector<Held> held_;                      // taken, waiting for the commit
  std::vector<Source*> dirty_;
};

}  // namespace triage::daemon
