// Errors as problem details (RFC 9457, application/problem+json): {"type": "about:blank", "title", "status", "detail", ...}. The
// member "code" is stable and for programs; detail is for people and may change.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/message.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon::api {

// code: the stable word ("not_found", "bad_token", "body_too_large", ...), member "code" of the body. reason, help: left out when empty.
struct Problem {
  int status = 500;
  std::string code, detail;
  std::string reason = {}, help = {};
  std::optional<std::uint64_t> offset = {};      // byte of the body, from 0
  std::optional<int> retry_after_s = {};         // also as header
};

Response problem_response(const Problem& problem);
// An error of the service by its code. Messages of internal and io errors may name paths of this host; they are shown to admins only, others
// get a general sentence.
Response problem_response(const parsers::Error& error, Role role);

}  // namespace triage::daemon::api
