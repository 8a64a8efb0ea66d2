#include "daemon/runtime/service_api.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/cli/scan_files.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/pipeline/triage.hpp"
#include "daemon/runtime/context_lines.hpp"
#include "daemon/runtime/upload_lines.hpp"
#include "daemon/tail/read_at_file.hpp"
#include "db/store.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::Status;
using parsers::TimePoint;

namespace {

constexpr std::size_t kTextRows = 20'000;   // limit: rows that a search by text looks through

db::HistoryQuery history_query(const api::IncidentFilter& filter) {
  db::HistoryQuery query;
  query.kind = filter.kind;
  query.job = filter.job;
  query.node = filter.node;
  query.fingerprint = filter.fingerprint;
  query.since = filter.since;
  query.until = filter.until;
  query.open = filter.open;
  return query;
}

api::IncidentRow row_of(const db::HistoryRow& row, const std::function<std::string(const std::string&)>& severity) {
  api::IncidentRow out;
  out.id = row.id;
  out.fingerprint = row.fingerprint;
  out.kind = row.kind;
  out.phase = row.phase;
  out.summary = row.summary;
  out.source = row.source;
  out.job = row.job;
  out.node = row.node;
  out.severity = severity(row.kind);
  out.attempt = row.attempt;
  out.confidence = row.confidence;
  out.line = row.line;
  out.rank = row.rank;
  out.step = row.step;
  out.open = row.state == db::IncidentState::open;
  out.revision = std::max<std::uint64_t>(row.revision, 1);
  out.opened_at = row.kept_at;
  out.changed_at = row.changed_at.value_or(row.kept_at);
  out.occurred_at = row.occurred_at;
  out.seen = row.seen;
  return out;
}

bool holds(const db::HistoryRow& row, std::string_view lower) {
  for (const std::string* const field : {&row.summary, &row.job, &row.node, &row.kind, &row.source})
    if (parsers::lower(*field).find(lower) != std::string::npos) return true;
  return false;
}

api::SilenceRow silence_row(const db::Silence& silence, TimePoint now) {
  api::SilenceRow out;
  out.id = std::to_string(silence.id);
  out.match = {silence.kind, silence.job, silence.node, silence.fingerprint, ""};
  out.reason = silence.reason;
  out.author = silence.author;
  out.starts_at = silence.starts_at;
  out.ends_at = silence.ends_at;
  out.active = silence.starts_at <= now && now < silence.ends_at;
  return out;
}

// Sources and faults of a file under the name that its sender gave it; members of an archive as NAME!member.
void show_as(ScannedFiles& scanned, const std::string& path, const std::string& name) {
  const auto shown = [&](std::string& text) {
    if (text.starts_with(path)) text = name + text.substr(path.size());
  };
  const auto renamed = [&](signatures::SourceInfo& info) {
    signatures::SourceInfo again = source_info(info.name.starts_with(path) ? name + info.name.substr(path.size()) : info.name);
    info.name = again.name;
    if (!info.rank) info.rank = again.rank;
    if (!info.local_rank) info.local_rank = again.local_rank;
    if (!info.attempt) info.attempt = again.attempt;
    if (info.node.empty()) info.node = again.node;
  };
  for (signatures::SourceFindings& source : scanned.sources) {
    renamed(source.source);
    for (signatures::Lost& lost : source.lost) shown(lost.source);
  }
  for (Error& error : scanned.errors) {
    if (!error.place()) continue;
    parsers::Place place = *error.place();
    shown(place.file);
    error = std::move(error).at(std::move(place));
  }
}

std::string type_of(const db::WatchedRow& row) { return row.kind.empty() ? "file" : row.kind; }

}  // namespace

ServiceApi::ServiceApi(std::string database, ServiceFacts facts, MaskOptions mask, EventHub& hub)
    : database_(std::move(database)), facts_(std::move(facts)), mask_(std::move(mask)), hub_(hub), queries_(database_) {}

// ---- incidents

Result<api::IncidentPage> ServiceApi::incidents(const api::IncidentQuery& query) {
  return queries_.with([&](db::Query& store) -> Result<api::IncidentPage> {
    db::HistoryQuery wanted = history_query(query.filter);
    const std::string text = parsers::lower(query.filter.text);
    wanted.limit = static_cast<std::int64_t>(text.empty() ? query.limit : std::size_t{500});
    if (query.after) wanted.cursor = db::history_cursor(query.after->opened_at, query.after->id);
    api::IncidentPage page;
    for (std::size_t looked = 0; looked < kTextRows;) {
      TRIAGE_TRY(const db::HistoryPage found, store.incidents(wanted));
      looked += found.rows.size();
      for (const db::HistoryRow& row : found.rows) {
        if (!text.empty() && !holds(row, text)) continue;
        if (page.rows.size() == query.limit) {
          page.more = true;
          return page;
        }
        page.rows.push_back(row_of(row, facts_.severity));
        page.rows.back().summary = mask_text(page.rows.back().summary, mask_);
      }
      page.more = !found.next.empty();
      if (text.empty() || found.next.empty()) break;
      wanted.cursor = found.next;
    }
    return page;
  });
}

Result<api::IncidentDetail> ServiceApi::incident(const std::string& id) {
  return queries_.with([&](db::Query& store) -> Result<api::IncidentDetail> {
    if (id.size() < 4) return Error(ErrorCode::not_found, "an incident is named by at least 4 characters of its id");
    TRIAGE_TRY(const db::Kept kept, store.find(id));
    api::IncidentDetail out;
    out.row = row_of(kept.row, facts_.severity);
    out.row.summary = mask_text(out.row.summary, mask_);
    const Json answer = Json::parse(kept.answer, nullptr, false);
    out.answer = answer.is_discarded() ? kept.answer : json_text(mask_json(answer, mask_), -1);
    for (const db::Feedback& said : kept.feedback) out.feedback.push_back({said.fix, said.helped, said.note, said.said_at});
    TRIAGE_TRY(const std::vector<db::FixRecord> records, store.fix_records(kept.row.fingerprint));
    for (const db::FixRecord& record : records) out.fix_counts.push_back({record.fix.empty() ? record.settings : record.fix, record.helped, record.tried});
    return out;
  });
}

namespace {

constexpr std::chrono::seconds kPatience{2};   // for one answer of a file server; a request waits for it

Result<api::Context> read_watched(FileSystem& files, const std::string& path, const api::ContextQuery& query, std::optional<std::pair<std::uint64_t, std::uint64_t>> near) {
  TRIAGE_TRY(const auto file, open_read_at(files, path, kPatience));
  return read_context(*file, path, query, near);
}

}  // namespace

Result<api::Context> ServiceApi::context(const api::ContextQuery& query) {
  return queries_.with([&](db::Query& store) -> Result<api::Context> {
    std::string source = query.source, incident;
    std::optional<std::pair<std::uint64_t, std::uint64_t>> near;   // line, offset of a place that is known
    bool allowed = false;
    if (!query.incident.empty()) {
      TRIAGE_TRY(const db::Kept kept, store.find(query.incident));
      if (source.empty()) source = kept.row.source;
      incident = kept.row.id;
      allowed = source == kept.row.source;
      TRIAGE_TRY(const std::vector<db::FindingRow> findings, store.findings(kept.row.id));
      for (const db::FindingRow& finding : findings) {
        if (finding.source != source) continue;
        allowed = true;
        const auto line = static_cast<std::uint64_t>(finding.line);
        if (query.line && line <= *query.line && (!near || near->first < line)) near = {line, static_cast<std::uint64_t>(finding.offset)};
      }
    }
    TRIAGE_TRY(const std::optional<db::WatchedRow> watched, store.watched(source));
    if (!watched && !allowed) return Error(ErrorCode::not_found, "'" + source + "' is no source of this incident, and is not watched");
    if (!watched) {
      TRIAGE_TRY(const std::vector<db::SpoolLine> kept, store.excerpt(incident, source));
      if (!kept.empty()) {
        api::Context lines = context_of_spool(source, query, kept);
        for (api::ContextLine& line : lines.lines) line.text = mask_text(line.text, mask_);
        return lines;
      }
      // The name of an upload or of a member of one is no path of ours, whatever it looks like.
      if (!source.starts_with('/')) return Error(ErrorCode::not_found, "the lines of '" + source + "' are not kept");
    }
    Result<api::Context> lines = read_watched(*facts_.files, source, query, near);
    if (!lines.ok() || (watched && watched->kind == "push")) {
      if (!watched) return std::move(lines).error();
      TRIAGE_TRY(const std::vector<db::SpoolLine> spool, store.spool(watched->id));
      lines = context_of_spool(source, query, spool);
    }
    for (api::ContextLine& line : lines->lines) line.text = mask_text(line.text, mask_);
    return lines;
  });
}

// ---- figures

Result<std::vector<api::CountBucket>> ServiceApi::counts(const api::CountQuery& query) {
  return queries_.with([&](db::Query& store) -> Result<std::vector<api::CountBucket>> {
    std::map<std::pair<TimePoint, std::string>, std::int64_t> sums;
    if (query.by == api::CountBy::job || query.by == api::CountBy::node || !query.filter.text.empty()) {
      db::HistoryQuery wanted = history_query(query.filter);
      wanted.limit = 500;
      const std::string text = parsers::lower(query.filter.text);
      const auto step = std::chrono::microseconds(std::chrono::seconds(std::max<std::int64_t>(query.step_s, 1)));
      for (std::size_t looked = 0; looked < kTextRows;) {
        TRIAGE_TRY(const db::HistoryPage found, store.incidents(wanted));
        looked += found.rows.size();
        for (const db::HistoryRow& row : found.rows) {
          if (!text.empty() && !holds(row, text)) continue;
          const TimePoint start{row.kept_at.time_since_epoch() / step * step};
          std::string key;
          if (query.by == api::CountBy::job) key = row.job;
          if (query.by == api::CountBy::node) key = row.node;
          if (query.by == api::CountBy::kind) key = row.kind;
          if (query.by == api::CountBy::severity) key = facts_.severity(row.kind);
          ++sums[{start, key}];
        }
        if (found.next.empty()) break;
        wanted.cursor = found.next;
      }
    } else {
      TRIAGE_TRY(const std::vector<db::KindCount> found, store.counts(history_query(query.filter), std::chrono::seconds(query.step_s)));
      for (const db::KindCount& count : found) {
        std::string key;
        if (query.by == api::CountBy::kind) key = count.kind;
        if (query.by == api::CountBy::severity) key = facts_.severity(count.kind);
        sums[{count.begin, key}] += count.incidents;
      }
    }
    std::vector<api::CountBucket> out;
    for (const auto& [place, count] : sums) out.push_back({place.first, place.second, count});
    return out;
  });
}

Result<std::vector<api::RecurringNode>> ServiceApi::recurring(const api::IncidentFilter& filter, std::size_t limit) {
  return queries_.with([&](db::Query& store) -> Result<std::vector<api::RecurringNode>> {
    struct Sum {
      api::RecurringNode node;
      std::set<std::string> jobs;
      std::map<std::string, std::int64_t> kinds;
    };
    std::map<std::string, Sum> sums;
    db::HistoryQuery wanted = history_query(filter);
    wanted.limit = 500;
    for (std::size_t looked = 0; looked < kTextRows;) {
      TRIAGE_TRY(const db::HistoryPage found, store.incidents(wanted));
      looked += found.rows.size();
      for (const db::HistoryRow& row : found.rows) {
        if (row.node.empty()) continue;
        Sum& sum = sums[row.node];
        if (sum.node.incidents++ == 0) {   // newest first
          sum.node.node = row.node;
          sum.node.last_at = row.kept_at;
          sum.node.last_incident = row.id;
        }
        sum.node.first_at = row.kept_at;
        sum.jobs.insert(row.job);
        ++sum.kinds[row.kind];
      }
      if (found.next.empty()) break;
      wanted.cursor = found.next;
    }
    std::vector<api::RecurringNode> out;
    for (auto& [name, sum] : sums) {
      sum.node.jobs = static_cast<std::int64_t>(sum.jobs.size());
      sum.node.kinds.assign(sum.kinds.begin(), sum.kinds.end());
      std::stable_sort(sum.node.kinds.begin(), sum.node.kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      out.push_back(std::move(sum.node));
    }
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.incidents > b.incidents; });
    if (out.size() > limit) out.resize(limit);
    for (api::RecurringNode& node : out) {
      if (node.incidents < 2) continue;
      db::HistoryQuery its = history_query(filter);
      its.node = node.node;
      TRIAGE_TRY(const auto devices, store.devices(its));
      // The GPU that most of them name: one is the suspect, not the node.
      if (!devices.empty() && devices.front().second >= 2 && 2 * devices.front().second > node.incidents) node.device = devices.front().first;
    }
    return out;
  });
}

Result<api::SourcePage> ServiceApi::sources(const api::SourceQuery& query) {
  return queries_.with([&](db::Query& store) -> Result<api::SourcePage> {
    db::SourceQuery wanted;
    wanted.job = query.job;
    wanted.ended_too = true;
    wanted.limit = 1000;
    const TimePoint now = facts_.now();
    std::vector<api::SourceRow> all;
    for (;;) {
      TRIAGE_TRY(const db::SourcePage page, store.sources(wanted));
      for (const db::WatchedRow& row : page.rows) {
        api::SourceRow out;
        out.name = row.name;
        out.type = type_of(row);
        out.job = row.job;
        out.node = row.node;
        out.attempt = row.attempt;
        out.rank = row.rank;
        out.local_rank = row.local_rank;
        out.size = std::max(row.size, row.offset);
        out.offset = row.offset;
        out.lines = row.lines;
        out.lost_bytes = row.lost_bytes;
        const bool quiet = now - row.seen_at > std::chrono::seconds(60);
        out.state = row.ended ? "ended" : row.size > row.offset && !quiet ? "reading" : quiet ? "idle" : "reading";
        if (row.size > row.offset) out.lag_s = std::chrono::duration<double>(now - row.seen_at).count();
        out.seen_at = row.seen_at;
        if (!query.node.empty() && out.node != query.node) continue;
        if (!query.state.empty() && out.state != query.state) continue;
        all.push_back(std::move(out));
      }
      if (page.next == 0) break;
      wanted.after = page.next;
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    api::SourcePage out;
    out.total = static_cast<std::int64_t>(all.size());
    for (api::SourceRow& row : all) {
      if (row.state != "ended") out.lag_bytes += row.size - row.offset;
      if (!query.after.empty() && row.name <= query.after) continue;
      if (out.rows.size() == query.limit) {
        out.more = true;
        continue;
      }
      out.rows.push_back(std::move(row));
    }
    return out;
  });
}

// ---- what people say

Status ServiceApi::say(const std::string& incident, const api::SaidFeedback& feedback) {
  TRIAGE_TRY(db::Store store, db::Store::open(database_));
  TRIAGE_TRY(const db::Kept kept, store.find(incident));
  TRIAGE_CHECK(store.say(kept.row.id, {feedback.fix, feedback.helped, feedback.note, feedback.said_at}));
  hub_.publish("feedback", json_text(Json{{"incident", kept.row.id}, {"fix", feedback.fix}, {"helped", feedback.helped}}, -1));
  return parsers::done();
}

Result<std::vector<api::SilenceRow>> ServiceApi::silences(bool ended_too) {
  return queries_.with([&](db::Query& store) -> Result<std::vector<api::SilenceRow>> {
    TRIAGE_TRY(const std::vector<db::Silence> found, store.silences(facts_.now(), ended_too));
    std::vector<api::SilenceRow> out;
    for (const db::Silence& silence : found) out.push_back(silence_row(silence, facts_.now()));
    return out;
  });
}

Result<api::SilenceRow> ServiceApi::add_silence(const api::SilenceRow& silence) {
  if (!silence.match.severity.empty())
    return Error(ErrorCode::unsupported, "a silence by severity is not kept").help("name kinds instead: kind, job, node or fingerprint");
  TRIAGE_TRY(db::Silences store, db::Silences::open(database_));
  db::Silence made;
  made.kind = silence.match.kind;
  made.job = silence.match.job;
  made.node = silence.match.node;
  made.fingerprint = silence.match.fingerprint;
  made.reason = silence.reason;
  made.author = silence.author;
  made.starts_at = silence.starts_at;
  made.ends_at = silence.ends_at;
  TRIAGE_TRY(made.id, store.add(made, facts_.now()));
  facts_.silences_changed();
  hub_.publish("silence", json_text(Json{{"id", std::to_string(made.id)}}, -1));
  return silence_row(made, facts_.now());
}

Status ServiceApi::end_silence(const std::string& id) {
  const auto number = parsers::read_integer(id);
  if (!number) return Error(ErrorCode::not_found, "there is no silence '" + id + "'");
  TRIAGE_TRY(db::Silences store, db::Silences::open(database_));
  TRIAGE_CHECK(store.end(*number, facts_.now()));
  facts_.silences_changed();
  hub_.publish("silence", json_text(Json{{"id", id}}, -1));
  return parsers::done();
}

Result<std::vector<api::OutboxCount>> ServiceApi::outbox_counts() {
  return queries_.with([&](db::Query& store) -> Result<std::vector<api::OutboxCount>> {
    TRIAGE_TRY(const std::vector<db::SinkCount> found, store.sink_counts());
    std::vector<api::OutboxCount> out;
    for (const db::SinkCount& count : found) out.push_back({count.sink, std::string(db::outbox_state_name(count.state)), count.items, count.oldest});
    return out;
  });
}

Result<std::vector<api::OutboxRow>> ServiceApi::outbox(const api::OutboxQuery& query) {
  return queries_.with([&](db::Query& store) -> Result<std::vector<api::OutboxRow>> {
    db::OutboxQuery wanted;
    using State = db::OutboxState;
    for (const State state : {State::waiting, State::sending, State::sent, State::dead, State::uncertain})
      if (query.state.empty() || db::outbox_state_name(state) == query.state) wanted.states.push_back(state);
    if (wanted.states.empty()) return Error(ErrorCode::syntax, "'" + query.state + "' is no state of the outbox").help("waiting, sending, sent, dead or uncertain");
    wanted.sink = query.sink;
    wanted.before = query.after;
    wanted.limit = static_cast<std::int64_t>(query.limit);
    TRIAGE_TRY(const std::vector<db::OutboxItem> found, store.outbox(wanted));
    std::vector<api::OutboxRow> out;
    for (const db::OutboxItem& item : found)
      out.push_back({item.id, item.sink, item.channel, item.incident, item.event, std::string(db::outbox_state_name(item.state)), item.error, item.tries, item.not_before});
    return out;
  });
}

Status ServiceApi::outbox_retry(std::int64_t id) {
  TRIAGE_TRY(db::Outbox store, db::Outbox::open(database_));
  TRIAGE_CHECK(store.requeue(id, facts_.now()));
  facts_.outbox_changed();
  return parsers::done();
}

// ---- uploads

Result<std::string> ServiceApi::upload(const api::Upload& upload) {
  const std::shared_ptr<const Knowledge> rules = knowledge();
  ScanFilesOptions options;
  options.threads = 1;
  options.default_year = facts_.default_year;
  ScannedFiles scanned = scan_files(rules, {upload.path}, options);
  show_as(scanned, upload.path, upload.name);
  if (scanned.sources.empty() && !scanned.errors.empty()) return std::move(scanned.errors.front());
  if (!upload.job.empty())
    for (signatures::SourceFindings& source : scanned.sources) source.source.job = upload.job;
  Answer answer = judge_sources(*rules, std::move(scanned.sources), facts_.now());
  for (JudgedIncident& incident : answer.incidents)
    if (incident.diagnosis.job.empty()) incident.diagnosis.job = upload.job;
  const std::string hash = rules->rules->hash();
  if (upload.keep && !answer.incidents.empty()) {
    TRIAGE_TRY(db::Store store, db::Store::open(database_));
    std::vector<db::Keep> keep;
    for (const JudgedIncident& incident : answer.incidents) keep.push_back({incident.diagnosis, incident.plan, json_text(incident_json(incident), -1)});
    TRIAGE_TRY(const std::int64_t changed, store.keep(keep, {}, {hash, program_version()}, facts_.now()));
    const std::vector<std::vector<db::Excerpt>> excerpts = lines_around(answer.incidents, upload.path, upload.name);
    for (std::size_t i = 0; i < excerpts.size(); ++i) TRIAGE_CHECK(store.keep_excerpts(answer.incidents[i].diagnosis.id, excerpts[i]));
    if (changed > 0)
      for (const JudgedIncident& incident : answer.incidents)
        hub_.publish("incident.opened", json_text(Json{{"id", incident.diagnosis.id}, {"kind", incident.diagnosis.kind}, {"summary", mask_text(incident.diagnosis.summary, mask_)}}, -1));
  }
  return json_text(mask_json(answer_json(answer, hash), mask_), -1);
}

}  // namespace triage::daemon
