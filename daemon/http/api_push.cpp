// Push receivers in the forms that shippers speak: Loki, OTLP/HTTP, newline JSON.
#include <algorithm>

#include "daemon/http/api_parts.hpp"
#include "daemon/http/compression.hpp"
#include "daemon/http/gate.hpp"
#include "daemon/http/push/batch.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

std::uint64_t hash_of(std::string_view receiver, std::string_view body) {
  const std::string digest = sha256(body);
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < 8; ++i) out = out << 8 | static_cast<unsigned char>(digest[i]);
  for (const char c : receiver) out = out * 31 + static_cast<unsigned char>(c);
  return out;
}

// Asks the sink and counts. Does not make the answer: each receiver has its own form.
PushAnswer offer(const ApiParts& parts, std::string_view receiver, PushedBatch& batch, std::uint64_t hash, std::size_t bytes) {
  PushAnswer answer;
  const std::uint64_t lines = batch.lines;
  if (!batch.streams.empty()) answer = parts.sink.offer(std::move(batch.streams), hash);
  const char* result = answer.what == PushAnswer::What::accepted ? (answer.repeated ? "repeated" : "accepted") : answer.what == PushAnswer::What::busy ? "busy" : "refused";
  parts.registry.counter(metrics::kPushBatches, {receiver, result}).add();
  if (answer.what == PushAnswer::What::accepted) {
    parts.registry.counter(metrics::kPushLines, {receiver}).add(static_cast<double>(lines - std::min(lines, answer.rejected)));
    parts.registry.counter(metrics::kPushBytes, {receiver}).add(static_cast<double>(bytes));
    answer.rejected += batch.rejected;
    if (answer.why.empty()) answer.why = batch.why;
  }
  return answer;
}

Problem busy_problem(const PushAnswer& answer) {
  return Problem{429, "busy", answer.why.empty() ? "the service cannot take more at the moment" : answer.why, {}, {}, {}, std::clamp(answer.retry_after_s, 1, 3600)};
}

Problem malformed(const ApiParts& parts, std::string_view receiver, const Error& error) {
  parts.registry.counter(metrics::kPushBatches, {receiver, "malformed"}).add();
  Problem problem{400, "malformed", error.message(), error.reason(), error.help_text()};
  if (error.code() == ErrorCode::limit) {
    problem.status = 413;
    problem.code = "body_too_large";
  }
  if (error.place()) problem.offset = error.place()->offset;
  return problem;
}

Result<std::string> unpacked(const ApiParts& parts, const Request& request, std::optional<Coding> inner) {
  const auto coding = read_coding(request.header("content-encoding"));
  if (!coding) return Error(ErrorCode::unsupported, "the content coding '" + parsers::repair_utf8(request.header("content-encoding").substr(0, 40)) + "' is not known").help("gzip, deflate, zstd, snappy");
  const std::size_t limit = parts.config.limits.push_unpacked_bytes;
  if (inner && (*coding == Coding::snappy || *coding == Coding::identity)) return unpack(*inner, request.body, limit);
  TRIAGE_TRY(std::string body, unpack(*coding, request.body, limit));
  if (!inner) return body;
  return unpack(*inner, body, limit);
}

Response coding_fault(const ApiParts& parts, std::string_view receiver, const Error& error) {
  if (error.code() == ErrorCode::unsupported) return problem_response(Problem{415, "bad_content_coding", error.message(), {}, error.help_text()});
  return problem_response(malformed(parts, receiver, error));
}

Response loki(const ApiParts& parts, const Request& request) {
  const std::string type = media_type(request.header("content-type"));
  const bool json = type == "application/json";
  if (!json && type != "application/x-protobuf" && type != "application/protobuf") refuse(415, "bad_media_type", "the body has to be application/json or application/x-protobuf");
  auto body = unpacked(parts, request, json ? std::nullopt : std::optional(Coding::snappy));
  if (!body.ok()) return coding_fault(parts, "loki", body.error());
  auto batch = json ? read_loki_json(*body) : read_loki_protobuf(*body);
  if (!batch.ok()) return problem_response(malformed(parts, "loki", batch.error()));
  const PushAnswer answer = offer(parts, "loki", *batch, hash_of("loki", *body), body->size());
  if (answer.what == PushAnswer::What::busy) return problem_response(busy_problem(answer));
  if (answer.what == PushAnswer::What::refused) return problem_response(Problem{422, "refused", answer.why});
  Response response;
  response.status = 204;
  return response;
}

// google.rpc.Status: code = 1, message = 2.
std::string protobuf_status(int code, const std::string& message) {
  std::string out;
  const auto varint = [&out](std::uint64_t value) {
    for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
    out += static_cast<char>(value);
  };
  out += '\x08';
  varint(static_cast<std::uint64_t>(code));
  out += '\x12';
  varint(message.size());
  return out + message;
}

// Errors in the form of OTLP: a google.rpc.Status in the request's own encoding.
Response otlp_problem(const Problem& problem, bool json) {
  Response response = problem_response(problem);
  constexpr int kInvalidArgument = 3, kResourceExhausted = 8, kUnavailable = 14;
  const int code = problem.status == 429 ? kResourceExhausted : problem.status == 503 ? kUnavailable : kInvalidArgument;
  std::string message = problem.detail + (problem.reason.empty() ? "" : ": " + problem.reason);
  if (json) {
    response.set("Content-Type", "application/json");
    response.body = json_text(Json{{"code", code}, {"message", message}}, -1);
  } else {
    response.set("Content-Type", "application/x-protobuf");
    response.body = protobuf_status(code, message);
  }
  return response;
}

// ExportLogsServiceResponse: partial_success = 1 {rejected_log_records = 1, error_message = 2}.
Response otlp_success(const PushAnswer& answer, bool json) {
  Response response;
  if (json) {
    response.set("Content-Type", "application/json");
    Json body = Json::object();
    if (answer.rejected > 0) body["partialSuccess"] = {{"rejectedLogRecords", std::to_string(answer.rejected)}, {"errorMessage", answer.why}};
    response.body = json_text(body, -1);
    return response;
  }
  response.set("Content-Type", "application/x-protobuf");
  if (answer.rejected > 0) {
    // The same shape as a status: a number in field 1, a text in field 2.
    const std::string partial = protobuf_status(static_cast<int>(std::min<std::uint64_t>(answer.rejected, 0x7fffffff)), answer.why.substr(0, 100));
    response.body = std::string(1, '\x0a') + static_cast<char>(partial.size()) + partial;
  }
  return response;
}

Response otlp(const ApiParts& parts, const Request& request) {
  const std::string type = media_type(request.header("content-type"));
  const bool json = type == "application/json";
  if (!json && type != "application/x-protobuf") return otlp_problem(Problem{415, "bad_media_type", "the body has to be application/json or application/x-protobuf"}, true);
  auto body = unpacked(parts, request, std::nullopt);
  if (!body.ok())
    return otlp_problem(body.error().code() == ErrorCode::unsupported ? Problem{415, "bad_content_coding", body.error().message()} : malformed(parts, "otlp", body.error()), json);
  auto batch = json ? read_otlp_json(*body) : read_otlp_protobuf(*body);
  if (!batch.ok()) return otlp_problem(malformed(parts, "otlp", batch.error()), json);
  const PushAnswer answer = offer(parts, "otlp", *batch, hash_of("otlp", *body), body->size());
  if (answer.what == PushAnswer::What::busy) return otlp_problem(busy_problem(answer), json);
  if (answer.what == PushAnswer::What::refused) return otlp_problem(Problem{422, "refused", answer.why}, json);
  return otlp_success(answer, json);
}

// Labels in the query (?job=...&node=...) hold for all records: sinks that cannot add members to records can still say what they are.
Labels labels_of_query(const Request& request) {
  Labels out;
  for (const auto& [name, value] : request.target.query) {
    if (name.size() > 64 || value.size() > 253) refuse(400, "bad_parameter", "a label in the query is too long");
    if (out.size() >= 16) refuse(400, "bad_parameter", "the query has more than 16 labels");
    out.emplace_back(name, value);
  }
  return out;
}

Response ndjson(const ApiParts& parts, const Request& request) {
  const std::string type = media_type(request.header("content-type"));
  constexpr std::string_view kTypes[] = {"application/json", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-lines", "application/stream+json"};
  if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) refuse(415, "bad_media_type", "the body has to be application/x-ndjson or application/json");
  const Labels given = labels_of_query(request);
  auto body = unpacked(parts, request, std::nullopt);
  if (!body.ok()) return coding_fault(parts, "ndjson", body.error());
  auto batch = read_ndjson(*body, given);
  if (!batch.ok()) return problem_response(malformed(parts, "ndjson", batch.error()));
  const std::uint64_t lines = batch->lines, rejected = batch->rejected;
  if (lines == 0 && rejected > 0) return problem_response(malformed(parts, "ndjson", Error(ErrorCode::syntax, "no record of the body holds a line").because(batch->why)));
  std::uint64_t hash = hash_of("ndjson", *body);
  for (const auto& [name, value] : given) hash ^= hash_of(name, value);
  const PushAnswer answer = offer(parts, "ndjson", *batch, hash, body->size());
  if (answer.what == PushAnswer::What::busy) return problem_response(busy_problem(answer));
  if (answer.what == PushAnswer::What::refused) return problem_response(Problem{422, "refused", answer.why});
  return json_response({{"accepted", lines + rejected - answer.rejected}, {"rejected", answer.rejected}, {"why", known(answer.why)}});
}

}  // namespace

void add_push_routes(Routes& routes, const Parts& parts) {
  const auto add = [&](const char* path, Response (*handler)(const ApiParts&, const Request&)) {
    routes.add({"POST", path, Role::push, Lane::push, BodyKind::memory, parts->config.limits.push_bytes,
                guarded([parts, handler](const Request& request) { return handler(*parts, request); })});
  };
  add("/loki/api/v1/push", loki);
  add("/v1/logs", otlp);
  add("/api/v1/push/ndjson", ndjson);
}

}  // namespace triage::daemon::api
