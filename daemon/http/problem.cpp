#include "daemon/http/problem.hpp"

#include "daemon/http/json_view.hpp"
#include "parsers/base/error_text.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;

Response problem_response(const Problem& problem) {
  Json body = {{"type", "about:blank"}, {"title", reason_phrase(problem.status)}, {"status", problem.status}, {"code", problem.code}, {"detail", problem.detail}};
  if (!problem.reason.empty()) body["reason"] = problem.reason;
  if (!problem.help.empty()) body["help"] = problem.help;
  if (problem.offset) body["offset"] = *problem.offset;
  Response response;
  response.status = problem.status;
  response.set("Content-Type", "application/problem+json");
  if (problem.retry_after_s) {
    response.set("Retry-After", std::to_string(*problem.retry_after_s));
    body["retry_after_s"] = *problem.retry_after_s;
  }
  response.body = json_text(body, -1);
  return response;
}

Response problem_response(const Error& error, Role role) {
  Problem problem;
  problem.code = std::string(parsers::error_code_name(error.code()));
  problem.detail = error.message();
  problem.reason = error.reason();
  problem.help = error.help_text();
  if (error.place()) problem.offset = error.place()->offset;
  switch (error.code()) {
    case ErrorCode::not_found: problem.status = 404; break;
    case ErrorCode::conflict: problem.status = 409; break;
    case ErrorCode::syntax: problem.status = 400; break;
    case ErrorCode::limit: problem.status = 413; break;
    case ErrorCode::unsupported: problem.status = 501; break;
    case ErrorCode::unavailable:
      problem.status = 503;
      problem.retry_after_s = 2;
      break;
    case ErrorCode::io:
    case ErrorCode::internal:
      problem.status = 500;
      if (role != Role::admin) {
        problem.detail = "the service could not do this; its log says why";
        problem.reason.clear();
        problem.help.clear();
      }
      break;
  }
  return problem_response(problem);
}

}  // namespace triage::daemon::api
