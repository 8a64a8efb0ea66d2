// The service itself: sources, rules, silences, outbox, health, metrics, the OpenAPI document.
#include <algorithm>

#include "daemon/http/api_parts.hpp"
#include "daemon/http/gate.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/visible.hpp"
#include "signatures/match/explain.hpp"

namespace triage::daemon::api {

namespace {

constexpr std::int64_t kLongestSilence_s = 90LL * 86400;   // longer ones are forgotten, and hide what they should not

Response sources(const ApiParts& parts, const Request& request) {
  allow_query(request, {"job", "node", "state", "limit", "cursor"});
  SourceQuery query;
  query.job = query_text(request, "job");
  query.node = query_text(request, "node");
  query.state = query_text(request, "state");
  query.limit = static_cast<std::size_t>(query_number(request, "limit", 100, 1, 1000));
  if (const auto cursor = request.query("cursor")) {
    auto place = read_page_place(*cursor);
    if (!place) refuse(400, "bad_cursor", "'cursor' is none that this service gave", "take it from the member next of the page before");
    query.after = std::move(place->second);
  }
  auto page = parts.view.sources(query);
  if (!page.ok()) return problem_response(page.error(), request.role);
  Json rows = Json::array();
  for (const SourceRow& row : page->rows)
    rows.push_back({{"name", row.name}, {"type", row.type}, {"state", row.state}, {"why", known(row.why)}, {"job", known(row.job)}, {"node", known(row.node)},
                    {"attempt", row.attempt}, {"rank", known(row.rank)}, {"local_rank", known(row.local_rank)}, {"size", row.size}, {"offset", row.offset},
                    {"lag_bytes", row.size > row.offset ? row.size - row.offset : 0}, {"lag_s", known(row.lag_s)}, {"lines", row.lines}, {"lost_bytes", row.lost_bytes},
                    {"seen_at", known_time(row.seen_at)}});
  const Json next = page->more && !page->rows.empty() ? Json(page_place({}, page->rows.back().name)) : Json(nullptr);
  return json_response({{"sources", rows}, {"total", page->total}, {"lag_bytes", page->lag_bytes}, {"next", next}});
}

Json rule_json(const signatures::Signature& rule, bool whole) {
  Json out = {{"id", rule.id}, {"kind", rule.kind}, {"role", signatures::role_name(rule.role)}, {"version", rule.version}, {"within", signatures::within_name(rule.within)},
              {"summary", known(rule.summary)}, {"fixes", rule.fixes}};
  if (!whole) return out;
  Json examples = Json::array(), counter = Json::array();
  for (const signatures::Example& example : rule.examples) examples.push_back(example.text);
  for (const signatures::Example& example : rule.counter_examples) counter.push_back(example.text);
  out["match"] = rule.match;
  out["unless"] = rule.unless;
  out["help"] = known(rule.help);
  out["sources"] = rule.sources;
  out["examples"] = std::move(examples);
  out["counter_examples"] = std::move(counter);
  return out;
}

Response rules(const ApiParts& parts, const Request& request) {
  allow_query(request, {"role", "kind"});
  const std::string role = query_text(request, "role"), kind = query_text(request, "kind");
  const auto knowledge = parts.view.knowledge();
  Json out = Json::array();
  for (const signatures::Signature& rule : knowledge->rules->signatures()) {
    if (!role.empty() && signatures::role_name(rule.role) != role) continue;
    if (!kind.empty() && rule.kind != kind && !rule.kind.starts_with(kind + ".")) continue;
    out.push_back(rule_json(rule, false));
  }
  return json_response({{"version", program_version()}, {"hash", knowledge->rules->hash()}, {"engine", knowledge->rules->engine()}, {"rules", out}});
}

Response rule(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const auto knowledge = parts.view.knowledge();
  for (const signatures::Signature& one : knowledge->rules->signatures())
    if (one.id == request.parameters[0]) return json_response(rule_json(one, true));
  refuse(404, "not_found", "there is no rule of that id");
}

Response explain(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const Json body = body_object(request, {"line"});
  const std::string line = text_member(body, "line", 64 * 1024, true);
  return json_response({{"text", parsers::visible(signatures::explain(*parts.view.knowledge()->rules, line), true)}});
}

// ---- silences

Json silence_json(const SilenceRow& row) {
  return {{"id", row.id},
          {"match", {{"kind", known(row.match.kind)}, {"job", known(row.match.job)}, {"node", known(row.match.node)}, {"fingerprint", known(row.match.fingerprint)}, {"severity", known(row.match.severity)}}},
          {"reason", row.reason}, {"author", known(row.author)}, {"starts_at", time_text(row.starts_at)}, {"ends_at", time_text(row.ends_at)}, {"active", row.active}};
}

Response silences(const ApiParts& parts, const Request& request) {
  allow_query(request, {"ended"});
  auto rows = parts.view.silences(query_flag(request, "ended").value_or(false));
  if (!rows.ok()) return problem_response(rows.error(), request.role);
  Json out = Json::array();
  for (const SilenceRow& row : *rows) out.push_back(silence_json(row));
  return json_response({{"silences", out}});
}

Response add_silence(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const Json body = body_object(request, {"match", "reason", "author", "starts_at", "ends_at", "duration"});
  if (!body.contains("match") || !body["match"].is_object()) refuse(400, "missing_member", "the body has no object 'match'", "{\"match\": {\"node\": \"gpu-17\"}, \"reason\": \"...\", \"duration\": \"4h\"}");
  const Json& match = body["match"];
  for (const auto& [name, value] : match.items())
    if (name != "kind" && name != "job" && name != "node" && name != "fingerprint" && name != "severity")
      refuse(400, "unknown_member", "'match' has an unknown member '" + name.substr(0, 64) + "'", "known: kind, job, node, fingerprint, severity");
  SilenceRow row;
  row.match.kind = text_member(match, "kind", 200);
  row.match.job = text_member(match, "job", 1024);
  row.match.node = text_member(match, "node", 1024);
  row.match.fingerprint = text_member(match, "fingerprint", 200);
  row.match.severity = text_member(match, "severity", 50);
  if (row.match.kind.empty() && row.match.job.empty() && row.match.node.empty() && row.match.fingerprint.empty() && row.match.severity.empty())
    refuse(400, "bad_member", "'match' says nothing: it would silence everything");
  row.reason = text_member(body, "reason", 2000, true);
  row.author = text_member(body, "author", 200);
  const TimePoint now = parts.view.now();
  const auto time_member = [&](const char* name) -> std::optional<TimePoint> {
    const std::string text = text_member(body, name, 64);
    if (text.empty()) return std::nullopt;
    const auto time = read_time(text);
    if (!time) refuse(400, "bad_member", std::string("'") + name + "' is no time", "write 2026-12-01T13:19:02Z");
    return time;
  };
  row.starts_at = time_member("starts_at").value_or(now);
  const auto ends = time_member("ends_at");
  const std::string duration = text_member(body, "duration", 32);
  if (ends.has_value() != duration.empty()) refuse(400, "missing_member", "the body needs either ends_at or duration");
  if (ends) {
    row.ends_at = *ends;
  } else {
    const auto seconds = read_duration_s(duration);
    if (!seconds) refuse(400, "bad_member", "'duration' is no span of time", "write 30m, 4h or 7d");
    row.ends_at = row.starts_at + std::chrono::seconds(*seconds);
  }
  if (row.ends_at <= row.starts_at || row.ends_at <= now) refuse(400, "bad_member", "the silence would end before it begins, or has ended");
  if (row.ends_at - now > std::chrono::seconds(kLongestSilence_s)) refuse(400, "bad_member", "a silence may last 90 days at most");
  auto added = parts.view.add_silence(row);
  if (!added.ok()) return problem_response(added.error(), request.role);
  Response response = json_response(silence_json(*added), 201);
  response.set("Location", "/api/v1/silences");
  return response;
}

Response end_silence(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  if (auto status = parts.view.end_silence(request.parameters[0]); !status.ok()) return problem_response(status.error(), request.role);
  Response response;
  response.status = 204;
  return response;
}

// ---- outbox

Response outbox(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  auto rows = parts.view.outbox_counts();
  if (!rows.ok()) return problem_response(rows.error(), request.role);
  Json out = Json::array();
  for (const OutboxCount& row : *rows) out.push_back({{"sink", row.sink}, {"state", row.state}, {"count", row.count}, {"oldest_at", known_time(row.oldest_at)}});
  return json_response({{"counts", out}});
}

Response outbox_items(const ApiParts& parts, const Request& request) {
  allow_query(request, {"state", "sink", "limit", "cursor"});
  OutboxQuery query;
  query.state = request.query("state") ? query_text(request, "state") : "dead";
  for (const std::string_view state : {"waiting", "sending", "sent", "dead", "uncertain", ""})
    if (state == query.state) break;
    else if (state.empty()) refuse(400, "bad_parameter", "'state' has to be waiting, sending, sent, dead or uncertain");
  query.sink = query_text(request, "sink");
  query.after = query_number(request, "cursor", 0, 0, INT64_MAX);
  query.limit = static_cast<std::size_t>(query_number(request, "limit", 50, 1, 500));
  auto rows = parts.view.outbox(query);
  if (!rows.ok()) return problem_response(rows.error(), request.role);
  Json out = Json::array();
  for (const OutboxRow& row : *rows)
    out.push_back({{"id", row.id}, {"sink", row.sink}, {"channel", known(row.channel)}, {"incident", row.incident}, {"event", row.event}, {"state", row.state},
                   {"tries", row.tries}, {"not_before", time_text(row.not_before)}, {"error", known(row.error)}});
  const Json next = rows->size() >= query.limit ? Json(std::to_string(rows->back().id)) : Json(nullptr);
  return json_response({{"items", out}, {"next", next}});
}

Response outbox_retry(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const auto id = parsers::read_integer(request.parameters[0]);
  if (!id || *id <= 0) refuse(404, "not_found", "there is no outbox item of that id");
  if (auto status = parts.view.outbox_retry(*id); !status.ok()) return problem_response(status.error(), request.role);
  Response response;
  response.status = 204;
  return response;
}

// ---- health

Response health(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const Health now = parts.view.health();
  Json list = Json::array();
  for (const HealthPart& part : now.parts) list.push_back({{"part", part.part}, {"ok", part.ok}, {"why", known(part.why)}});
  return json_response({{"alive", now.alive}, {"ready", now.ready}, {"version", now.version}, {"started_at", known_time(now.started_at)}, {"parts", list}});
}

// One word for probes; which part is ill is for callers with a role.
Response probe(bool good, const char* word, const Health& state, Role role) {
  Response response;
  response.status = good ? 200 : 503;
  response.set("Content-Type", "text/plain; charset=utf-8");
  response.body = good ? "ok\n" : std::string(word) + "\n";
  if (holds(role, Role::read))
    for (const HealthPart& part : state.parts)
      if (!part.ok) response.body += part.part + ": " + parsers::visible(part.why) + "\n";
  return response;
}

Response metrics_text(const ApiParts& parts) {
  Response response;
  response.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.body = parts.registry.prometheus();
  return response;
}

}  // namespace

void add_service_routes(Routes& routes, const Parts& parts) {
  using Handler = Response (*)(const ApiParts&, const Request&);
  const auto add = [&](const char* method, const char* path, Role role, Handler handler, std::uint64_t body = 0) {
    routes.add({method, path, role, Lane::quick, body > 0 ? BodyKind::memory : BodyKind::none, body,
                guarded([parts, handler](const Request& request) { return handler(*parts, request); })});
  };
  add("GET", "/api/v1/sources", Role::read, sources);
  add("GET", "/api/v1/rules", Role::read, rules);
  add("GET", "/api/v1/rules/{id}", Role::read, rule);
  add("POST", "/api/v1/explain", Role::read, explain, 256 * 1024);
  add("GET", "/api/v1/silences", Role::read, silences);
  add("POST", "/api/v1/silences", Role::admin, add_silence, 64 * 1024);
  add("DELETE", "/api/v1/silences/{id}", Role::admin, end_silence);
  add("GET", "/api/v1/outbox", Role::read, outbox);
  add("GET", "/api/v1/outbox/items", Role::read, outbox_items);
  add("POST", "/api/v1/outbox/items/{id}/retry", Role::admin, outbox_retry, 1024);
  add("GET", "/api/v1/health", Role::read, health);
  routes.add({"GET", "/api/v1/openapi.yaml", Role::none, Lane::quick, BodyKind::none, 0, [](const Request&) {
                Response response;
                response.set("Content-Type", "application/yaml");
                response.body = std::string(openapi_text());
                return response;
              }});
  // On the I/O thread: they have to answer while all other threads are busy.
  routes.add({"GET", "/healthz", Role::none, Lane::at_once, BodyKind::none, 0, [parts](const Request& request) {
                const Health state = parts->view.health();
                return probe(state.alive, "stuck", state, request.role);
              }});
  routes.add({"GET", "/readyz", Role::none, Lane::at_once, BodyKind::none, 0, [parts](const Request& request) {
                const Health state = parts->view.health();
                return probe(state.ready, "not ready", state, request.role);
              }});
  routes.add({"GET", "/metrics", Role::read, Lane::quick, BodyKind::none, 0, [parts](const Request&) { return metrics_text(*parts); }});
}

}  // namespace triage::daemon::api
