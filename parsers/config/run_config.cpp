#include "parsers/config/run_config.hpp"

#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace triage::parsers {
namespace {

[[maybe_unused]] bool type_fits(KeyType type, const Value& value) {
  switch (type) {
    case KeyType::integer: return std::holds_alternative<std::int64_t>(value);
    case KeyType::number: return std::holds_alternative<double>(value);
    case KeyType::boolean: return std::holds_alternative<bool>(value);
    case KeyType::text: return std::holds_alternative<std::string>(value);
    case KeyType::list: return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t'\"";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<double> read_number(std::string_view text) {
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::vector<std::string> read_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty() && (text.front() == '[' || text.front() == '(')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ']' || text.back() == ')')) text.remove_suffix(1);
  while (!text.empty()) {
    const auto end = text.find_first_of(", ");
    const std::string_view item = trim(text.substr(0, end));
    if (!item.empty()) items.emplace_back(item);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return items;
}

}  // namespace

const std::vector<KeyInfo>& all_keys() {
  static const std::vector<KeyInfo> keys = {
#define TRIAGE_KEY(name, type, help) {Key::name, #name, KeyType::type, help},
#include "parsers/config/keys.def"
#undef TRIAGE_KEY
  };
  return keys;
}

const KeyInfo& key_info(Key key) { return all_keys()[static_cast<std::size_t>(key)]; }

std::optional<Key> key_by_name(std::string_view name) {
  for (const KeyInfo& info : all_keys())
    if (info.name == name) return info.key;
  return std::nullopt;
}

const Setting* RunConfig::find(Key key) const {
  const auto at = settings_.find(key);
  return at == settings_.end() ? nullptr : &at->second;
}

std::optional<std::int64_t> RunConfig::integer(Key key) const {
  const Setting* setting = find(key);
  if (!setting) return std::nullopt;
  if (const auto* value = std::get_if<std::int64_t>(&setting->value)) return *value;
  return std::nullopt;
}

std::optional<double> RunConfig::number(Key key) const {
  const Setting* setting = find(key);
  if (!setting) return std::nullopt;
  if (const auto* value = std::get_if<double>(&setting->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&setting->value)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> RunConfig::boolean(Key key) const {
  const Setting* setting = find(key);
  if (!setting) return std::nullopt;
  if (const auto* value = std::get_if<bool>(&setting->value)) return *value;
  return std::nullopt;
}

std::optional<std::string> RunConfig::text(Key key) const {
  const Setting* setting = find(key);
  if (!setting) return std::nullopt;
  if (const auto* value = std::get_if<std::string>(&setting->value)) return *value;
  return std::nullopt;
}

const std::vector<std::string>* RunConfig::list(Key key) const {
  const Setting* setting = find(key);
  return setting ? std::get_if<std::vector<std::string>>(&setting->value) : nullptr;
}

void RunConfig::set(Key key, Value value, std::string origin, Place place) {
  const KeyType type = key_info(key).type;
  if (type == KeyType::number && std::holds_alternative<std::int64_t>(value))
    value = static_cast<double>(std::get<std::int64_t>(value));
  assert(type_fits(type, value));
  settings_.insert_or_assign(key, Setting{std::move(value), std::move(origin), std::move(place)});
}

Status RunConfig::set_text(Key key, std::string_view value, std::string origin, Place place) {
  const KeyInfo& info = key_info(key);
  const std::string_view text = trim(value);
  if (text.empty() || text == "None" || text == "null") {
    unset(key);
    return done();
  }
  const auto wrong = [&](std::string_view wanted) {
    return Error(ErrorCode::syntax, std::string(info.name) + " is '" + std::string(text) + "', not " + std::string(wanted)).at(place);
  };
  switch (info.type) {
    case KeyType::integer: {
      const auto number = read_number(text);
      if (!number || *number != std::floor(*number) || std::abs(*number) > 9e15) return wrong("a whole number");
      set(key, static_cast<std::int64_t>(*number), std::move(origin), std::move(place));
      break;
    }
    case KeyType::number: {
      const auto number = read_number(text);
      if (!number) return wrong("a number");
      set(key, *number, std::move(origin), std::move(place));
      break;
    }
    case KeyType::boolean: {
      if (text == "True" || text == "true" || text == "1" || text == "yes" || text == "on")
        set(key, true, std::move(origin), std::move(place));
      else if (text == "False" || text == "false" || text == "0" || text == "no" || text == "off")
        set(key, false, std::move(origin), std::move(place));
      else
        return wrong("true or false");
      break;
    }
    case KeyType::text: set(key, std::string(text), std::move(origin), std::move(place)); break;
    case KeyType::list: set(key, read_list(text), std::move(origin), std::move(place)); break;
  }
  return done();
}

std::string value_text(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", *number);
    return text;
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  std::string out = "[";
  for (const std::string& item : std::get<std::vector<std::string>>(value)) out += (out.size() > 1 ? ", " : "") + item;
  return out + "]";
}

}  // namespace triage::parsers
