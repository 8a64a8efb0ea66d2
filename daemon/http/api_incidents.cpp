// Incidents: list, one, findings, lines around a place, counts, nodes that recur, the event stream, feedback.
#include <algorithm>

#include "daemon/http/api_parts.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace {

constexpr std::uint32_t kContextLines = 2000;      // before and after together; a screen of a virtual list has some 60
constexpr std::int64_t kBuckets = 5000;            // of one answer of counts

IncidentFilter filter_of(const Request& request, TimePoint now) {
  IncidentFilter filter;
  filter.kind = query_text(request, "kind");
  filter.job = query_text(request, "job");
  filter.node = query_text(request, "node");
  filter.fingerprint = query_text(request, "fingerprint");
  filter.text = query_text(request, "text");
  filter.since = query_time(request, "since", now);
  filter.until = query_time(request, "until", now);
  filter.open = query_flag(request, "open");
  return filter;
}

Json row_json(const IncidentRow& row) {
  return {{"id", row.id},
          {"fingerprint", row.fingerprint},
          {"kind", row.kind},
          {"severity", known(row.severity)},
          {"phase", known(row.phase)},
          {"summary", row.summary},
          {"job", known(row.job)},
          {"attempt", row.attempt},
          {"node", known(row.node)},
          {"rank", known(row.rank)},
          {"step", known(row.step)},
          {"source", row.source},
          {"line", row.line},
          {"confidence", row.confidence},
          {"open", row.open},
          {"revision", row.revision},
          {"opened_at", time_text(row.opened_at)},
          {"changed_at", time_text(row.changed_at)},
          {"occurred_at", known_time(row.occurred_at)},
          {"seen", row.seen}};
}

Response list(const ApiParts& parts, const Request& request) {
  allow_query(request, {"kind", "job", "node", "fingerprint", "text", "since", "until", "open", "limit", "cursor"});
  IncidentQuery query;
  query.filter = filter_of(request, parts.view.now());
  query.limit = static_cast<std::size_t>(query_number(request, "limit", 50, 1, 500));
  if (const auto cursor = request.query("cursor")) {
    auto place = read_page_place(*cursor);
    if (!place) refuse(400, "bad_cursor", "'cursor' is none that this service gave", "take it from the member next of the page before");
    query.after = IncidentPlace{place->first, std::move(place->second)};
  }
  auto page = parts.view.incidents(query);
  if (!page.ok()) return problem_response(page.error(), request.role);
  Json rows = Json::array();
  for (const IncidentRow& row : page->rows) rows.push_back(row_json(row));
  const Json next = page->more && !page->rows.empty() ? Json(page_place(page->rows.back().opened_at, page->rows.back().id)) : Json(nullptr);
  return json_response({{"incidents", rows}, {"next", next}});
}

// The stored answer of the incident; a text of ours, but read with care.
Json answer_of(const IncidentDetail& detail) {
  Json answer = Json::parse(detail.answer, nullptr, false);
  return answer.is_object() ? answer : Json(nullptr);
}

Response one(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  auto detail = parts.view.incident(request.parameters[0]);
  if (!detail.ok()) return problem_response(detail.error(), request.role);
  Json feedback = Json::array(), counts = Json::array();
  for (const SaidFeedback& said : detail->feedback)
    feedback.push_back({{"fix", known(said.fix)}, {"helped", said.helped}, {"note", said.note}, {"said_at", time_text(said.said_at)}});
  for (const FixCount& count : detail->fix_counts) counts.push_back({{"fix", known(count.fix)}, {"helped", count.helped}, {"tried", count.tried}});
  return json_response({{"incident", row_json(detail->row)}, {"answer", answer_of(*detail)}, {"feedback", feedback}, {"fix_counts", counts}});
}

Response findings(const ApiParts& parts, const Request& request) {
  allow_query(request, {"role", "rank", "offset", "limit"});
  const std::string role = query_text(request, "role");
  const std::int64_t rank = query_number(request, "rank", -1, 0, 100'000'000);
  const auto offset = static_cast<std::size_t>(query_number(request, "offset", 0, 0, 100'000'000));
  const auto limit = static_cast<std::size_t>(query_number(request, "limit", 500, 1, 5000));
  auto detail = parts.view.incident(request.parameters[0]);
  if (!detail.ok()) return problem_response(detail.error(), request.role);
  const Json answer = answer_of(*detail);
  Json out = Json::array();
  std::size_t total = 0;
  if (answer.is_object() && answer.contains("findings") && answer["findings"].is_array())
    for (const Json& finding : answer["findings"]) {
      if (!role.empty() && finding.value("role", std::string()) != role) continue;
      if (rank >= 0 && !(finding.contains("rank") && finding["rank"].is_number_integer() && finding["rank"].get<std::int64_t>() == rank)) continue;
      if (total++ >= offset && out.size() < limit) out.push_back(finding);
    }
  return json_response({{"incident", detail->row.id}, {"total", total}, {"findings", out}});
}

Response context(const ApiParts& parts, const Request& request) {
  allow_query(request, {"incident", "source", "line", "offset", "before", "after"});
  ContextQuery query;
  query.incident = query_text(request, "incident");
  query.source = query_text(request, "source");
  if (query.incident.empty() && query.source.empty()) refuse(400, "missing_parameter", "the query names neither incident nor source");
  if (request.query("line")) query.line = static_cast<std::uint64_t>(query_number(request, "line", 1, 1, INT64_MAX));
  if (request.query("offset")) query.offset = static_cast<std::uint64_t>(query_number(request, "offset", 0, 0, INT64_MAX));
  if (query.line && query.offset) refuse(400, "bad_parameter", "the query has both line and offset");
  if (!query.line && !query.offset && query.incident.empty()) refuse(400, "missing_parameter", "the query has neither line nor offset");
  query.before = static_cast<std::uint32_t>(query_number(request, "before", 20, 0, kContextLines));
  query.after = static_cast<std::uint32_t>(query_number(request, "after", 20, 0, kContextLines));
  if (query.before + query.after > kContextLines) refuse(400, "bad_parameter", "before and after are more than " + std::to_string(kContextLines) + " lines together");
  auto read = parts.view.context(query);
  if (!read.ok()) return problem_response(read.error(), request.role);
  Json lines = Json::array();
  for (const ContextLine& line : read->lines)
    lines.push_back({{"number", line.number > 0 ? Json(line.number) : Json(nullptr)}, {"offset", line.offset}, {"text", line.text}, {"cut", line.cut}});
  return json_response({{"source", read->source}, {"size", read->size}, {"from_spool", read->from_spool}, {"lines", lines}});
}

Response counts(const ApiParts& parts, const Request& request) {
  allow_query(request, {"kind", "job", "node", "fingerprint", "text", "since", "until", "open", "step", "by"});
  const TimePoint now = parts.view.now();
  CountQuery query;
  query.filter = filter_of(request, now);
  if (!query.filter.until) query.filter.until = now;
  if (!query.filter.since) query.filter.since = *query.filter.until - std::chrono::hours(24);
  if (*query.filter.since >= *query.filter.until) refuse(400, "bad_parameter", "since is not before until");
  const std::int64_t span = std::chrono::duration_cast<std::chrono::seconds>(*query.filter.until - *query.filter.since).count() + 1;
  const std::string step = query_text(request, "step");
  query.step_s = std::max<std::int64_t>(1, span / 96);
  if (!step.empty()) {
    const auto read = read_duration_s(step);
    if (!read) refuse(400, "bad_parameter", "'step' is no span of time", "write 15m, 6h or seconds");
    query.step_s = *read;
  }
  if (span / query.step_s > kBuckets) refuse(400, "bad_parameter", "that would be more than " + std::to_string(kBuckets) + " buckets", "take a larger step");
  const std::string by = query_text(request, "by");
  if (by == "kind") query.by = CountBy::kind;
  else if (by == "job") query.by = CountBy::job;
  else if (by == "node") query.by = CountBy::node;
  else if (by == "severity") query.by = CountBy::severity;
  else if (!by.empty()) refuse(400, "bad_parameter", "'by' has to be kind, job, node or severity");
  auto buckets = parts.view.counts(query);
  if (!buckets.ok()) return problem_response(buckets.error(), request.role);
  Json out = Json::array();
  for (const CountBucket& bucket : *buckets) out.push_back({{"start", time_text(bucket.start)}, {"key", known(bucket.key)}, {"count", bucket.count}});
  return json_response({{"since", time_text(*query.filter.since)}, {"until", time_text(*query.filter.until)}, {"step_s", query.step_s}, {"buckets", out}});
}

Response nodes(const ApiParts& parts, const Request& request) {
  allow_query(request, {"kind", "job", "node", "since", "until", "limit"});
  auto rows = parts.view.recurring(filter_of(request, parts.view.now()), static_cast<std::size_t>(query_number(request, "limit", 50, 1, 1000)));
  if (!rows.ok()) return problem_response(rows.error(), request.role);
  Json out = Json::array();
  for (const RecurringNode& row : *rows) {
    Json kinds = Json::array();
    for (const auto& [kind, count] : row.kinds) kinds.push_back({{"kind", kind}, {"count", count}});
    out.push_back({{"node", row.node}, {"device", known(row.device)}, {"incidents", row.incidents}, {"jobs", row.jobs}, {"kinds", kinds},
                   {"first_at", time_text(row.first_at)}, {"last_at", time_text(row.last_at)}, {"last_incident", row.last_incident}});
  }
  return json_response({{"nodes", out}});
}

Response stream(const ApiParts& parts, const Request& request) {
  allow_query(request, {"type", "last_event_id"});
  Response response;
  response.set("Content-Type", "text/event-stream");
  response.set("X-Accel-Buffering", "no");
  Response::Events events;
  events.type_prefix = query_text(request, "type");
  // The header is what a browser sends again by itself; the parameter is for the first request of a page that loaded a list before.
  std::string id(request.header("last-event-id"));
  if (id.empty()) id = query_text(request, "last_event_id");
  if (id.empty()) {
    events.after = parts.view.events().last();
  } else {
    const EventHub::Position position = parts.view.events().parse(id);
    events.after = position.sequence;
    events.gap = position.gap;
  }
  response.events = events;
  return response;
}

Response feedback(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const Json body = body_object(request, {"fix", "helped", "note"});
  SaidFeedback said;
  said.fix = text_member(body, "fix", 200);
  if (!body.contains("helped")) refuse(400, "missing_member", "the body has no member 'helped'");
  said.helped = flag_member(body, "helped", true);
  said.note = text_member(body, "note", 4000);
  said.said_at = parts.view.now();
  if (auto status = parts.view.say(request.parameters[0], said); !status.ok()) return problem_response(status.error(), request.role);
  return json_response({{"fix", known(said.fix)}, {"helped", said.helped}, {"note", said.note}, {"said_at", time_text(said.said_at)}}, 201);
}

}  // namespace

void add_incident_routes(Routes& routes, const Parts& parts) {
  const auto get = [&](const char* path, Response (*handler)(const ApiParts&, const Request&)) {
    routes.add({"GET", path, Role::read, Lane::quick, BodyKind::none, 0, guarded([parts, handler](const Request& request) { return handler(*parts, request); })});
  };
  get("/api/v1/incidents", list);
  get("/api/v1/incidents/{id}", one);
  get("/api/v1/incidents/{id}/findings", findings);
  get("/api/v1/context", context);
  get("/api/v1/counts", counts);
  get("/api/v1/nodes", nodes);
  routes.add({"GET", "/api/v1/stream", Role::read, Lane::at_once, BodyKind::none, 0, guarded([parts](const Request& request) { return stream(*parts, request); })});
  routes.add({"POST", "/api/v1/incidents/{id}/feedback", Role::admin, Lane::quick, BodyKind::memory, 64 * 1024,
              guarded([parts](const Request& request) { return feedback(*parts, request); })});
}

}  // namespace triage::daemon::api
