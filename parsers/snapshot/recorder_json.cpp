#include "parsers/snapshot/recorder_json.hpp"

#include <nlohmann/json.hpp>

#include "parsers/base/limits.hpp"

namespace triage::parsers {

using Json = nlohmann::json;

struct JsonTree::Impl {
  Json json;
};

namespace {

const Json* of(const void* node) { return static_cast<const Json*>(node); }

// Offset of the bracket that goes too deep, if any.
std::optional<std::size_t> too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limits::kJsonDepth) return i;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> JsonNode::boolean() const {
  return json_ != nullptr && of(json_)->is_boolean() ? std::optional(of(json_)->get<bool>()) : std::nullopt;
}

std::optional<std::int64_t> JsonNode::integer() const {
  if (json_ == nullptr || !of(json_)->is_number_integer()) return std::nullopt;
  if (of(json_)->is_number_unsigned() && of(json_)->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return of(json_)->get<std::int64_t>();
}

std::optional<std::string_view> JsonNode::text() const {
  if (json_ == nullptr || !of(json_)->is_string()) return std::nullopt;
  return std::string_view(of(json_)->get_ref<const std::string&>());
}

std::size_t JsonNode::size() const { return json_ != nullptr && of(json_)->is_structured() ? of(json_)->size() : 0; }

JsonNode JsonNode::operator[](std::size_t i) const {
  if (json_ == nullptr || !of(json_)->is_array() || i >= of(json_)->size()) return {};
  return JsonNode(&(*of(json_))[i]);
}

void JsonNode::each(const std::function<void(std::string_view, JsonNode)>& visit) const {
  if (json_ == nullptr || !of(json_)->is_object()) return;
  for (auto entry = of(json_)->begin(); entry != of(json_)->end(); ++entry) visit(entry.key(), JsonNode(&entry.value()));
}

JsonNode JsonNode::find(std::string_view key) const {
  if (json_ == nullptr || !of(json_)->is_object()) return {};
  const auto entry = of(json_)->find(std::string(key));
  return entry == of(json_)->end() ? JsonNode() : JsonNode(&entry.value());
}

bool JsonNode::contains(std::string_view key) const { return find(key).json_ != nullptr; }

JsonNode JsonTree::root() const { return JsonNode(&impl_->json); }

Result<JsonTree> parse_json_tree(std::string_view text, const std::string& file) {
  if (const auto at = too_deep(text))
    return Error(ErrorCode::limit, "the JSON is nested deeper than " + std::to_string(limits::kJsonDepth)).at(Place{file, {}, {}, *at, {}});
  auto impl = std::make_shared<JsonTree::Impl>();
  try {
    impl->json = Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const std::uint64_t at = error.byte > 0 ? error.byte - 1 : 0;
    return Error(ErrorCode::syntax, at >= text.size() ? "the JSON ends early" : "the JSON is damaged")
        .at(Place{file, {}, {}, at, {}})
        .help("the process may have died while it wrote the file; the other ranks' dumps are still judged");
  } catch (const Json::exception&) {
    return Error(ErrorCode::syntax, "the JSON is damaged").at(Place{file, {}, {}, 0, {}});
  }
  return JsonTree(std::move(impl));
}

}  // namespace triage::parsers
