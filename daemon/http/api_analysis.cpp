// What works on data that the caller sends: plan, snapshots with their replays, uploads.
#include <algorithm>
#include <climits>

#include "daemon/http/api_parts.hpp"
#include "daemon/http/gate.hpp"
#include "daemon/http/plan_json.hpp"
#include "daemon/http/snapshot_html.hpp"
#include "daemon/http/snapshot_json.hpp"
#include "daemon/http/snapshot_shelf.hpp"
#include "daemon/http/what_if_json.hpp"
#include "daemon/pipeline/intake_stream.hpp"
#include "daemon/pipeline/memory_plan.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace {

constexpr std::size_t kTimelinePoints = 32'768;    // recorded of a device: 100 bytes each
constexpr GraphSize kGraph = {1500, 400, 600, 12'000, false};   // of the first view: a point a pixel of a usual screen
constexpr std::int64_t kMostPoints = 4000;         // of one answer: two a pixel of a wide screen
constexpr std::size_t kTexts = 64;                 // logs or configuration files of one plan
constexpr std::size_t kSettings = 500;
constexpr std::size_t kReplays = 16;               // allocator settings of one request

int year_of(TimePoint now) {
  return static_cast<int>(std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(now)).year());
}

// A member that is one {"name", "text"} or a list of them; a bare text is taken too.
std::vector<NamedText> texts_member(const Json& body, const char* name, const char* otherwise_named) {
  std::vector<NamedText> out;
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return out;
  const auto add = [&](const Json& item) {
    if (out.size() >= kTexts) refuse(400, "bad_member", std::string("'") + name + "' has more than " + std::to_string(kTexts) + " texts");
    if (item.is_string()) {
      out.push_back({otherwise_named, item.get<std::string>()});
    } else if (item.is_object()) {
      const std::string shown = text_member(item, "name", 1024);
      out.push_back({shown.empty() ? otherwise_named : shown_name(shown), text_member(item, "text", SIZE_MAX, true)});
    } else {
      refuse(400, "bad_member", std::string("'") + name + "' has to be a text, {\"name\", \"text\"} or a list of them");
    }
  };
  if (found->is_array())
    for (const Json& item : *found) add(item);
  else
    add(*found);
  return out;
}

std::string value_text(const Json& value, const std::string& name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  if (value.is_null()) return "None";
  if (value.is_array()) {
    std::string out;
    for (const Json& item : value) {
      if (!item.is_primitive()) refuse(400, "bad_member", "the setting '" + name.substr(0, 64) + "' has a nested value");
      out += (out.empty() ? "" : ",") + value_text(item, name);
    }
    return out;
  }
  refuse(400, "bad_member", "the setting '" + name.substr(0, 64) + "' is an object");
}

// The configuration that a stored answer holds, as settings: {"key": {"value": ...}}.
void settings_of_incident(const ApiParts& parts, const std::string& id, Role role, PlanInput& input) {
  auto detail = parts.view.incident(id);
  if (!detail.ok()) {
    Refused refused{Problem{404, "not_found", "there is no incident of that id"}};
    if (detail.error().code() != parsers::ErrorCode::not_found) refused.problem = Problem{503, "unavailable", holds(role, Role::admin) ? detail.error().message() : "the store cannot be read", {}, {}, {}, 2};
    throw refused;
  }
  const Json answer = Json::parse(detail->answer, nullptr, false);
  if (!answer.is_object()) return;
  if (answer.contains("config") && answer["config"].is_object())
    for (const auto& [name, setting] : answer["config"].items())
      if (setting.is_object() && setting.contains("value") && !setting["value"].is_null()) input.settings.emplace_back(name, value_text(setting["value"], name));
  if (answer.contains("ledger") && answer["ledger"].is_object() && input.gpu.empty() && input.capacity.empty()) {
    const Json& ledger = answer["ledger"];
    if (ledger.contains("capacity_bytes") && ledger["capacity_bytes"].is_number_integer()) input.capacity = ledger["capacity_bytes"].dump();
  }
}

Response plan(const ApiParts& parts, const Request& request) {
  allow_query(request, {});
  const Json body = body_object(request, {"logs", "megatron_arguments", "model", "configs", "set", "incident", "gpu", "capacity", "rank", "sweep"});
  const auto knowledge = parts.view.knowledge();
  const TimePoint now = parts.view.now();
  PlanInput input;
  input.gpu = text_member(body, "gpu", 100);
  input.capacity = text_member(body, "capacity", 100);
  input.sweep = flag_member(body, "sweep", false);
  if (body.contains("rank") && !body["rank"].is_null()) {
    if (!body["rank"].is_number_unsigned()) refuse(400, "bad_member", "'rank' has to be a number from 0");
    const auto rank = body["rank"].get<std::uint64_t>();
    if (rank > static_cast<std::uint64_t>(parsers::limits::kRanks)) refuse(400, "bad_member", "'rank' is too large");
    input.rank = static_cast<long>(rank);
  }
  for (const NamedText& log : texts_member(body, "logs", "log")) {
    IntakeStream intake(knowledge, source_info(log.name), year_of(now));
    intake.feed(log.text);
    input.logs.push_back(intake.finish());
  }
  input.megatron_arguments = text_member(body, "megatron_arguments", parsers::limits::kConfigBytes);
  if (body.contains("model") && body["model"].is_object() && !body["model"].contains("text")) {
    input.model = NamedText{"config.json", body["model"].dump()};       // config.json itself
  } else if (auto model = texts_member(body, "model", "config.json"); !model.empty()) {
    input.model = std::move(model.front());
  }
  input.configs = texts_member(body, "configs", "config");
  if (const std::string incident = text_member(body, "incident", 200); !incident.empty()) settings_of_incident(parts, incident, request.role, input);
  if (body.contains("set") && !body["set"].is_null()) {
    if (!body["set"].is_object()) refuse(400, "bad_member", "'set' has to be an object of settings");
    for (const auto& [name, value] : body["set"].items()) input.settings.emplace_back(name, value_text(value, name));
  }
  if (input.settings.size() > kSettings) refuse(400, "bad_member", "there are more than " + std::to_string(kSettings) + " settings");
  auto made = make_memory_plan(*knowledge, std::move(input), now);
  if (!made.ok()) {
    Response response = problem_response(made.error(), request.role);
    if (made.error().code() == parsers::ErrorCode::not_found) {   // not this path is missing, but something in the body
      Problem problem{422, "not_found", made.error().message(), made.error().reason(), made.error().help_text()};
      if (problem.help.empty()) problem.help = "give logs, megatron_arguments, model, configs, incident or set";
      response = problem_response(problem);
    }
    return response;
  }
  return json_response(plan_json(*made));
}

// ---- snapshots

std::shared_ptr<const SnapshotAnalysis> shelved(SnapshotShelf& shelf, const Request& request) {
  auto analysis = shelf.find(request.parameters[0]);
  if (!analysis) refuse(404, "not_found", "there is no snapshot of that id any more", "send it again");
  return analysis;
}

Response read_snapshot_file(SnapshotShelf& shelf, const Request& request) {
  allow_query(request, {"name"});
  const std::string name = shown_name(query_text(request, "name"));
  auto loaded = load_snapshot(request.body_file);
  if (!loaded.ok()) {
    // Its place names our temporary file.
    Problem problem{422, "no_snapshot", "the file is no allocator snapshot that can be read", loaded.error().reason().empty() ? loaded.error().message() : loaded.error().reason()};
    if (loaded.error().place()) problem.offset = loaded.error().place()->offset;
    for (std::size_t at; (at = problem.reason.find(request.body_file)) != std::string::npos;) problem.reason.replace(at, request.body_file.size(), name);
    return problem_response(problem);
  }
  parsers::SummaryOptions options;
  options.timeline_points = kTimelinePoints;
  SnapshotAnalysis analysis = analyze_snapshot(name, std::move(loaded).value(), options);
  Json answer = snapshot_json(analysis);
  answer["id"] = shelf.put(std::move(analysis), request.body_size);
  return json_response(answer, 201);
}

Response timeline(SnapshotShelf& shelf, const Request& request) {
  allow_query(request, {"device", "from", "to", "points"});
  const auto analysis = shelved(shelf, request);
  const std::int64_t device = query_number(request, "device", 0, 0, INT_MAX);
  const std::int64_t from = query_number(request, "from", 0, 0, INT_MAX), to = query_number(request, "to", INT_MAX, 0, INT_MAX);
  const std::int64_t points = query_number(request, "points", static_cast<std::int64_t>(kGraph.points), 2, kMostPoints);
  for (const DeviceAnalysis& one : analysis->devices)
    if (one.summary.device == device)
      return json_response(timeline_part_json(one, static_cast<std::size_t>(from), static_cast<std::size_t>(to), static_cast<std::size_t>(points)));
  refuse(404, "not_found", "the snapshot has no device " + std::to_string(device));
}

Response what_if(SnapshotShelf& shelf, const Request& request) {
  allow_query(request, {});
  const auto analysis = shelved(shelf, request);
  const Json body = body_object(request, {"settings", "capacity", "total_memory"});
  std::vector<std::string> settings;
  if (!body.contains("settings") || !body["settings"].is_array()) refuse(400, "missing_member", "the body has no list 'settings'", "{\"settings\": [\"expandable_segments:True\"]} or [\"all\"]");
  for (const Json& item : body["settings"]) {
    if (!item.is_string() || settings.size() >= kReplays) refuse(400, "bad_member", "'settings' has to be a list of at most " + std::to_string(kReplays) + " texts");
    settings.push_back(item.get<std::string>());
  }
  auto asked = read_what_if(settings, text_member(body, "capacity", 100), text_member(body, "total_memory", 100));
  if (!asked.ok()) return problem_response(asked.error(), request.role);
  Json answer = snapshot_json(*analysis);
  add_what_if(answer, *analysis, what_ifs_of(*analysis, *asked), asked->asked());
  Json devices = Json::array();
  for (const Json& device : answer["devices"])
    devices.push_back({{"device", device.value("device", 0)}, {"replay_check", device.contains("replay_check") ? device["replay_check"] : Json(nullptr)},
                       {"what_if", device.contains("what_if") ? device["what_if"] : Json::array()}});
  return json_response({{"devices", devices}});
}

// ---- uploads

Response upload(const ApiParts& parts, const Request& request) {
  allow_query(request, {"name", "job", "keep"});
  if (request.body_size == 0) refuse(400, "empty_body", "the upload is empty");
  Upload file;
  file.name = shown_name(query_text(request, "name"));
  file.path = request.body_file;
  file.size = request.body_size;
  file.job = query_text(request, "job");
  file.keep = query_flag(request, "keep").value_or(true);
  auto answer = parts.view.upload(file);
  if (!answer.ok()) return problem_response(answer.error(), request.role);
  Response response;
  response.status = file.keep ? 201 : 200;
  response.set("Content-Type", "application/json");
  response.body = std::move(answer).value();
  return response;
}

}  // namespace

void add_analysis_routes(Routes& routes, const Parts& parts) {
  const auto shelf = std::make_shared<SnapshotShelf>(4, 2ULL << 30, std::chrono::minutes(30));
  const HttpLimits& limits = parts->config.limits;
  const bool can_upload = !parts->config.upload_folder.empty();
  const auto no_folder = [](const Request&) -> Response {
    return problem_response(Problem{501, "no_upload_folder", "uploads are off: the configuration has no http.upload_folder"});
  };
  routes.add({"POST", "/api/v1/plan", Role::read, Lane::slow, BodyKind::memory, limits.json_bytes, guarded([parts](const Request& request) { return plan(*parts, request); })});
  if (can_upload) {
    routes.add({"POST", "/api/v1/snapshots", Role::read, Lane::slow, BodyKind::file, limits.upload_bytes, guarded([shelf](const Request& request) { return read_snapshot_file(*shelf, request); })});
    routes.add({"POST", "/api/v1/uploads", Role::admin, Lane::slow, BodyKind::file, limits.upload_bytes, guarded([parts](const Request& request) { return upload(*parts, request); })});
  } else {
    routes.add({"POST", "/api/v1/snapshots", Role::read, Lane::quick, BodyKind::unread, 0, no_folder});
    routes.add({"POST", "/api/v1/uploads", Role::admin, Lane::quick, BodyKind::unread, 0, no_folder});
  }
  routes.add({"GET", "/api/v1/snapshots/{id}", Role::read, Lane::slow, BodyKind::none, 0, guarded([shelf](const Request& request) {
                allow_query(request, {});
                Json answer = snapshot_json(*shelved(*shelf, request));
                answer["id"] = request.parameters[0];
                return json_response(answer);
              })});
  routes.add({"GET", "/api/v1/snapshots/{id}/graph", Role::read, Lane::slow, BodyKind::none, 0, guarded([shelf](const Request& request) {
                allow_query(request, {});
                return json_response(snapshot_graph_json(*shelved(*shelf, request), kGraph));
              })});
  routes.add({"GET", "/api/v1/snapshots/{id}/timeline", Role::read, Lane::quick, BodyKind::none, 0, guarded([shelf](const Request& request) { return timeline(*shelf, request); })});
  routes.add({"POST", "/api/v1/snapshots/{id}/what-if", Role::read, Lane::slow, BodyKind::memory, 64 * 1024, guarded([shelf](const Request& request) { return what_if(*shelf, request); })});
}

}  // namespace triage::daemon::api
