#include "parsers/snapshot/elastic_error.hpp"

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/snapshot/recorder_json.hpp"

namespace triage::parsers {
namespace {

std::string text_of(const JsonNode& node) {
  const auto text = node.text();
  return text ? repair_utf8(text->substr(0, limits::kElasticErrorText)) : std::string();
}

std::optional<std::int64_t> number_of(const JsonNode& node) {
  if (const auto value = node.integer()) return value;
  if (const auto text = node.text()) return read_integer(trim(*text));
  return std::nullopt;
}

}  // namespace

bool looks_like_elastic_error(std::string_view head) {
  head = trim_left(head);
  if (!consume(head, "{")) return false;
  return trim_left(head).starts_with("\"message\"") && (contains(head, "\"py_callstack\"") || contains(head, "\"extraInfo\"") || contains(head, "\"errorTraits\""));
}

Result<ElasticError> read_elastic_error(std::string_view bytes, const std::string& file) {
  if (bytes.size() > limits::kElasticErrorBytes)
    return Error(ErrorCode::limit, "an error file of more than " + std::to_string(limits::kElasticErrorBytes) + " bytes is not read").at(Place{file, {}, {}, 0, {}});
  TRIAGE_TRY(const JsonTree tree, parse_json_tree(bytes, file));
  const JsonNode root = tree.root(), message = root.find("message");
  ElasticError out;
  out.message = text_of(message);   // older versions: the text alone
  if (out.message.empty()) out.message = text_of(message.find("message"));
  const JsonNode extra = message.contains("extraInfo") ? message.find("extraInfo") : root.find("extraInfo");
  out.callstack = text_of(extra.find("py_callstack"));
  out.time = number_of(extra.find("timestamp"));
  if (!out.time) out.time = number_of(root.find("timestamp"));
  out.exit_code = number_of(message.find("errorCode"));
  if (out.message.empty() && out.callstack.empty()) return Error(ErrorCode::syntax, "the error file holds no message").at(Place{file, {}, {}, 0, {}});
  return out;
}

}  // namespace triage::parsers
