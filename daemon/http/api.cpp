#include "daemon/http/api.hpp"

#include <algorithm>

#include "daemon/http/api_parts.hpp"
#include "daemon/http/json_reader.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

std::span<const parsers::EmbeddedFile> openapi_files();    // compiled in, deploy/openapi

namespace {

constexpr std::size_t kBodyDepth = 32;

}  // namespace

std::string_view openapi_text() {
  const auto files = openapi_files();
  return files.empty() ? std::string_view() : files.front().text;
}

Routes make_routes(const ApiParts& parts) {
  Routes routes;
  const auto shared = std::make_shared<const ApiParts>(parts);
  add_incident_routes(routes, shared);
  add_service_routes(routes, shared);
  add_analysis_routes(routes, shared);
  add_push_routes(routes, shared);
  add_page_routes(routes, shared);
  return routes;
}

Response json_response(const Json& body, int status) {
  Response response;
  response.status = status;
  response.set("Content-Type", "application/json");
  response.body = json_text(body, -1);
  response.body += '\n';
  return response;
}

void refuse(int status, std::string code, std::string detail, std::string help) {
  throw Refused{Problem{status, std::move(code), std::move(detail), {}, std::move(help)}};
}

void allow_query(const Request& request, std::initializer_list<std::string_view> names) {
  std::string known_names;
  for (const std::string_view name : names) known_names += (known_names.empty() ? "" : ", ") + std::string(name);
  for (std::size_t i = 0; i < request.target.query.size(); ++i) {
    const std::string& name = request.target.query[i].first;
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse(400, "unknown_parameter", "the query has an unknown parameter '" + name + "'", known_names.empty() ? "this takes none" : "known: " + known_names);
    for (std::size_t k = 0; k < i; ++k)
      if (request.target.query[k].first == name) refuse(400, "doubled_parameter", "the query has '" + name + "' twice");
  }
}

std::string query_text(const Request& request, std::string_view name) {
  const auto value = request.query(name);
  if (value && value->size() > 1024) refuse(400, "bad_parameter", "'" + std::string(name) + "' is longer than 1024 bytes");
  return value ? std::string(*value) : std::string();
}

std::int64_t query_number(const Request& request, std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
  const auto text = request.query(name);
  if (!text) return otherwise;
  const auto value = parsers::read_integer(*text);
  if (!value || *value < least || *value > most)
    refuse(400, "bad_parameter", "'" + std::string(name) + "' has to be a number from " + std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

std::optional<bool> query_flag(const Request& request, std::string_view name) {
  const auto text = request.query(name);
  if (!text) return std::nullopt;
  if (*text != "true" && *text != "false") refuse(400, "bad_parameter", "'" + std::string(name) + "' has to be true or false");
  return *text == "true";
}

std::optional<TimePoint> query_time(const Request& request, std::string_view name, TimePoint now) {
  const auto text = request.query(name);
  if (!text) return std::nullopt;
  const bool unit = !text->empty() && parsers::is_alpha(text->back()) && text->back() != 'Z' && text->back() != 'z';
  if (unit)
    if (const auto before = read_duration_s(*text)) return now - std::chrono::seconds(*before);
  const auto time = read_time(*text);
  if (!time) refuse(400, "bad_parameter", "'" + std::string(name) + "' is no time", "write 2026-12-01T13:19:02Z, seconds since 1970, or a span before now such as 24h");
  return time;
}

Json body_object(const Request& request, std::initializer_list<std::string_view> members) {
  const std::string type = media_type(request.header("content-type"));
  // A page of another site can send other types without asking first.
  if (type != "application/json") refuse(415, "bad_media_type", "the body has to be application/json");
  if (!parsers::is_utf8(request.body)) refuse(400, "bad_body", "the body is no UTF-8");
  JsonReader check(request.body, false, kBodyDepth);
  JsonReader::Token token = check.next();
  if (token == JsonReader::Token::begin_object)
    while (token != JsonReader::Token::end && token != JsonReader::Token::fault) token = check.next();
  else if (token != JsonReader::Token::fault)
    token = check.fail("the body has to be an object");
  if (token == JsonReader::Token::fault) {
    const auto error = check.error();
    throw Refused{Problem{400, "bad_json", error.message(), error.reason(), {}, error.place() ? error.place()->offset : std::nullopt}};
  }
  Json body = Json::parse(request.body, nullptr, false);
  if (!body.is_object()) refuse(400, "bad_json", "the body is no JSON object");
  if (members.size() == 0) return body;
  for (const auto& [name, value] : body.items())
    if (std::find(members.begin(), members.end(), name) == members.end()) {
      std::string known_names;
      for (const std::string_view member : members) known_names += (known_names.empty() ? "" : ", ") + std::string(member);
      refuse(400, "unknown_member", "the body has an unknown member '" + name.substr(0, 64) + "'", "known: " + known_names);
    }
  return body;
}

std::string text_member(const Json& body, const char* name, std::size_t most, bool needed) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) {
    if (needed) refuse(400, "missing_member", std::string("the body has no member '") + name + "'");
    return {};
  }
  if (!found->is_string()) refuse(400, "bad_member", std::string("'") + name + "' has to be a text");
  std::string text = found->get<std::string>();
  if (text.size() > most) refuse(400, "bad_member", std::string("'") + name + "' is longer than " + std::to_string(most) + " bytes");
  if (needed && parsers::trim(text).empty()) refuse(400, "bad_member", std::string("'") + name + "' is empty");
  return text;
}

bool flag_member(const Json& body, const char* name, bool otherwise) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) refuse(400, "bad_member", std::string("'") + name + "' has to be true or false");
  return found->get<bool>();
}

Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace triage::daemon::api
