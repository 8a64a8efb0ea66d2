// What the files of the API share. Not for others.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/api.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/http/problem.hpp"

namespace triage::daemon::api {

using Parts = std::shared_ptr<const ApiParts>;

void add_incident_routes(Routes& routes, const Parts& parts);
void add_service_routes(Routes& routes, const Parts& parts);
void add_analysis_routes(Routes& routes, const Parts& parts);
void add_push_routes(Routes& routes, const Parts& parts);
void add_page_routes(Routes& routes, const Parts& parts);

Response json_response(const Json& body, int status = 200);

// A fault of the query or the body, thrown inside a handler and turned into its problem answer by `guarded`.
struct Refused {
  Problem problem;
};
[[noreturn]] void refuse(int status, std::string code, std::string detail, std::string help = {});

// Runs the handler; Refused becomes its problem, other exceptions pass to the server.
template <class Handler>
auto guarded(Handler handler) {
  return [handler](const Request& request) -> Response {
    try {
      return handler(request);
    } catch (const Refused& refused) {
      return problem_response(refused.problem);
    }
  };
}

// ---- query

// Every field of the query has to be one of these, and stand once: a mistyped filter must not answer everything.
void allow_query(const Request& request, std::initializer_list<std::string_view> names);
std::string query_text(const Request& request, std::string_view name);
std::int64_t query_number(const Request& request, std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most);
std::optional<bool> query_flag(const Request& request, std::string_view name);
// A time, or a duration before now ("24h").
std::optional<TimePoint> query_time(const Request& request, std::string_view name, TimePoint now);

// ---- body

// The body as a JSON object, at most 32 levels deep. Media type application/json. Only these members may stand in it; empty list: any.
Json body_object(const Request& request, std::initializer_list<std::string_view> members);
// Members; the wrong type is refused by name.
std::string text_member(const Json& body, const char* name, std::size_t most, bool needed = false);
bool flag_member(const Json& body, const char* name, bool otherwise);

Json known(const std::string& text);                       // empty: null
template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json known_time(const std::optional<TimePoint>& time) { return time ? Json(time_text(*time)) : Json(nullptr); }

}  // namespace triage::daemon::api
