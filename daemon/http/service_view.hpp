// ServiceView: what the API asks of the running service. Implemented by the runtime over the store and its parts, and by a fake in tests.
// All methods are called from several handler threads at the same time, may block (they run on the handler pool, never on the I/O thread),
// and do not throw. Values are copies. Errors become problem answers by their code: not_found 404, conflict 409, syntax 400, limit 413,
// unsupported 501, unavailable 503 with Retry-After, io and internal 500.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/http/event_hub.hpp"
#include "daemon/http/push_sink.hpp"
#include "daemon/pipeline/knowledge.hpp"
#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon::api {

using parsers::TimePoint;

// ---- incidents

// Which incidents. Empty or unset: any.
struct IncidentFilter {
  std::string kind;                        // "gpu.oom": this kind and those below it (gpu.oom.capacity), not gpu.oomx
  std::string job, node, fingerprint;      // exact
  std::string text;                        // part of summary, job, node, kind or source, ASCII letters without case
  std::optional<TimePoint> since, until;   // of opened_at: since <= opened_at < until
  std::optional<bool> open;                // true: still open; false: closed
};

// A place in the order of pages: newest first by (opened_at, id). A page holds the incidents strictly after it in that order.
struct IncidentPlace {
  TimePoint opened_at;
  std::string id;
};

struct IncidentQuery {
  IncidentFilter filter;
  std::optional<IncidentPlace> after;      // empty: from the newest
  std::size_t limit = 50;                  // 1 to 500
};

struct IncidentRow {
  std::string id, fingerprint, kind, phase, summary, source, job, node;   // empty: unknown
  std::string severity;                    // critical, warning, info
  int attempt = 1;
  double confidence = 0;
  std::int64_t line = 0;                   // of the root in its source, from 1
  std::optional<std::int64_t> rank, step;
  bool open = false;
  std::uint64_t revision = 1;              // goes up with each change of the answer
  TimePoint opened_at, changed_at;
  std::optional<TimePoint> occurred_at;    // time of the root line
  std::int64_t seen = 1;                   // incidents of this fingerprint in the store
};

struct IncidentPage {
  std::vector<IncidentRow> rows;           // at most limit
  bool more = false;                       // another page follows
};

struct SaidFeedback {
  std::string fix;                         // id of the fix; empty: about the diagnosis
  bool helped = true;
  std::string note;
  TimePoint said_at;
};

// Fixes that people or a later attempt confirmed for this fingerprint: "helped 7 of 9 times".
struct FixCount {
  std::string fix;
  std::int64_t helped = 0, tried = 0;
};

struct IncidentDetail {
  IncidentRow row;
  std::string answer;                      // the incident of the answer (design: "the answer as JSON"), one JSON object, masked as configured
  std::vector<SaidFeedback> feedback;
  std::vector<FixCount> fix_counts;
};

// ---- lines around a place

// Asks for lines of a source that belongs to an incident or is watched; nothing else may be read. Either line or offset is set: the place in
// the middle (line), or a byte at or after a line begin from which to read on (offset), as a virtual list does over a large file.
struct ContextQuery {
  std::string incident;                    // id; empty: of a watched source
  std::string source;                      // as the answer names it; empty: the root's
  std::optional<std::uint64_t> line;       // from 1
  std::optional<std::uint64_t> offset;     // bytes
  std::uint32_t before = 20, after = 20;   // lines
};

struct ContextLine {
  std::uint64_t number = 0;                // from 1; 0: not known (asked by offset)
  std::uint64_t offset = 0;                // of the line begin, bytes
  std::string text;                        // without line end; masked as configured
  bool cut = false;                        // longer than what is shown
};

struct Context {
  std::string source;
  std::uint64_t size = 0;                  // of the source now, bytes
  bool from_spool = false;                 // the file is gone or was pushed: only the kept lines are shown
  std::vector<ContextLine> lines;
};

// ---- figures

enum class CountBy { nothing, kind, job, node, severity };

struct CountQuery {
  IncidentFilter filter;                   // since and until are set
  std::int64_t step_s = 3600;              // width of a bucket, seconds; buckets begin at multiples of it since 1970
  CountBy by = CountBy::nothing;
};

struct CountBucket {
  TimePoint start;
  std::string key;                         // empty for CountBy::nothing, and for incidents without that value
  std::int64_t count = 0;                  // incidents opened in it; buckets without any may be left out
};

// A node (and device of it) that incidents name as root.
struct RecurringNode {
  std::string node;
  std::optional<std::int64_t> device;      // index of the GPU that most of the roots name
  std::int64_t incidents = 0, jobs = 0;
  std::vector<std::pair<std::string, std::int64_t>> kinds;   // most first
  TimePoint first_at, last_at;
  std::string last_incident;               // id
};

// ---- sources

struct SourceQuery {
  std::string job, node, state;            // exact; empty: any
  std::string after;                       // name; page in order of names
  std::size_t limit = 100;                 // 1 to 1000
};

struct SourceRow {
  std::string name;                        // path, push:..., kmsg, journal
  std::string type;                        // file, push, kmsg, journal, dump
  std::string state;                       // reading, idle, waiting, ended, failed
  std::string why;                         // of failed and waiting
  std::string job, node;
  int attempt = 1;
  std::optional<int> rank, local_rank;
  std::uint64_t size = 0, offset = 0;      // bytes; lag is their difference
  std::uint64_t lines = 0, lost_bytes = 0;
  std::optional<double> lag_s;             // age of the oldest byte not yet taken; empty: not known
  std::optional<TimePoint> seen_at;        // last growth
};

struct SourcePage {
  std::vector<SourceRow> rows;
  bool more = false;
  std::int64_t total = 0;                  // that match the query, all pages
  std::uint64_t lag_bytes = 0;             // of all sources together
};

// ---- silences

struct SilenceMatch {
  std::string kind, job, node, fingerprint, severity;   // kind: as IncidentFilter::kind; others exact; at least one is set
};

struct SilenceRow {
  std::string id;                          // given by the service
  SilenceMatch match;
  std::string reason, author;
  TimePoint starts_at, ends_at;
  bool active = false;                     // now between starts_at and ends_at
};

// ---- outbox

struct OutboxCount {
  std::string sink, state;                 // waiting, sending, sent, dead, uncertain
  std::int64_t count = 0;
  std::optional<TimePoint> oldest_at;      // waiting: since when the oldest is due
};

struct OutboxRow {
  std::int64_t id = 0;
  std::string sink, channel, incident, event, state, error;
  int tries = 0;
  TimePoint not_before;
};

struct OutboxQuery {
  std::string state = "dead", sink;        // sink empty: any
  std::int64_t after = 0;                  // id; ascending
  std::size_t limit = 50;
};

// ---- health

struct HealthPart {
  std::string part;                        // database, sources, alerts, desk, rules, configuration
  bool ok = true;
  std::string why;                         // one sentence: what is wrong and what the service does meanwhile
};

struct Health {
  bool alive = true;                       // false: restart me (a thread is stuck)
  bool ready = false;                      // false: starting, stopping, or nothing can be trusted
  std::string version;
  std::optional<TimePoint> started_at;
  std::vector<HealthPart> parts;
};

// ---- uploads

// A file that came in whole. The file at `path` is removed by the server after the call; who wants it longer moves it away.
struct Upload {
  std::string name;                        // what the sender called it: shown, never used as a path; one line, valid UTF-8, <= 255 bytes
  std::string path;                        // temporary file of ours
  std::uint64_t size = 0;                  // bytes
  std::string job;                         // to which it belongs, or empty
  bool keep = true;                        // store the incidents; false: only answer
};

class ServiceView {
 public:
  virtual ~ServiceView() = default;

  virtual TimePoint now() = 0;
  virtual std::shared_ptr<const Knowledge> knowledge() = 0;   // the set of rules in force
  virtual EventHub& events() = 0;                             // lives as long as the view

  virtual parsers::Result<IncidentPage> incidents(const IncidentQuery& query) = 0;
  // By id or by a prefix of it that is unique, at least 4 characters.
  virtual parsers::Result<IncidentDetail> incident(const std::string& id) = 0;
  virtual parsers::Result<Context> context(const ContextQuery& query) = 0;
  virtual parsers::Result<std::vector<CountBucket>> counts(const CountQuery& query) = 0;
  virtual parsers::Result<std::vector<RecurringNode>> recurring(const IncidentFilter& filter, std::size_t limit) = 0;
  virtual parsers::Result<SourcePage> sources(const SourceQuery& query) = 0;

  virtual parsers::Status say(const std::string& incident, const SaidFeedback& feedback) = 0;

  virtual parsers::Result<std::vector<SilenceRow>> silences(bool ended_too) = 0;
  virtual parsers::Result<SilenceRow> add_silence(const SilenceRow& silence) = 0;   // id and active are not read
  virtual parsers::Status end_silence(const std::string& id) = 0;                   // ends now; stays listed

  virtual parsers::Result<std::vector<OutboxCount>> outbox_counts() = 0;
  virtual parsers::Result<std::vector<OutboxRow>> outbox(const OutboxQuery& query) = 0;
  virtual parsers::Status outbox_retry(std::int64_t id) = 0;                        // a dead letter goes back to waiting

  // Reads the file (log, dump or archive), judges it, keeps it when asked. Returns the answer as JSON text of `triage scan --format json`.
  virtual parsers::Result<std::string> upload(const Upload& upload) = 0;

  virtual Health health() = 0;                                // answers within milliseconds, also when the database is stuck
};

}  // namespace triage::daemon::api
