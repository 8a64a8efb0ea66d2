#include "parsers/config/target.hpp"

#include <algorithm>
#include <cmath>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/merge.hpp"

namespace triage::parsers {

Place Target::place(std::uint64_t line) const {
  Place place;
  place.file = file_;
  if (line > 0) place.line = line;
  return place;
}

void Target::raw(std::string_view name, std::string_view value, std::uint64_t line) {
  if (name.empty()) return;
  auto& raw = config_.raw();
  const auto at = raw.find(name);
  if (at != raw.end()) {
    if (at->second.value != value || at->second.origin != origin_)
      at->second = RawSetting{std::string(value), origin_, place(line)};
    return;
  }
  if (raw.size() >= limits::kSettings) return;
  raw.emplace(std::string(name), RawSetting{std::string(value), origin_, place(line)});
}

void Target::raw(const FlatSettings& settings, std::string_view prefix) {
  for (const FlatSetting& setting : settings)
    raw(std::string(prefix) + setting.name, setting.value, setting.line);
}

void Target::put(Key key, Value value, std::uint64_t line) {
  merge_setting(config_, key, Setting{std::move(value), origin_, place(line)});
}

void Target::put_text(Key key, std::string_view text, std::uint64_t line) {
  text = trim(text);
  if (is_none(text) || text == "auto" || text == "default" || text == "<default>") return;
  RunConfig scratch;
  if (!scratch.set_text(key, text, origin_, place(line)).ok()) return;
  if (const Setting* setting = scratch.find(key)) merge_setting(config_, key, *setting);
}

Names::Names(const FlatSettings& settings) {
  sorted_.reserve(settings.size());
  for (const FlatSetting& setting : settings) sorted_.push_back(&setting);
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [](const FlatSetting* a, const FlatSetting* b) { return a->name < b->name; });
}

const FlatSetting* Names::find(std::string_view name) const {
  const auto at =
      std::upper_bound(sorted_.begin(), sorted_.end(), name,
                       [](std::string_view n, const FlatSetting* s) { return n < s->name; });
  if (at == sorted_.begin()) return nullptr;
  const FlatSetting* last = *std::prev(at);
  return last->name == name ? last : nullptr;
}

bool Names::yes(std::string_view name) const {
  const FlatSetting* setting = find(name);
  return setting && is_true(setting->value);
}

bool Names::no(std::string_view name) const {
  const FlatSetting* setting = find(name);
  return setting && is_false(setting->value);
}

std::string_view Names::text(std::string_view name) const {
  const FlatSetting* setting = find(name);
  return setting && !is_none(setting->value) ? trim(setting->value) : std::string_view();
}

std::optional<std::int64_t> Names::integer(std::string_view name) const {
  const FlatSetting* setting = find(name);
  if (!setting) return std::nullopt;
  if (const auto whole = read_integer(trim(setting->value))) return whole;
  const auto number = read_double(trim(setting->value));
  if (!number || !std::isfinite(*number) || std::abs(*number) > 9e15 ||
      *number != std::floor(*number))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::uint64_t Names::line(std::string_view name) const {
  const FlatSetting* setting = find(name);
  return setting ? setting->line : 0;
}

std::string_view enum_value(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() == '<' &&
      text.back() == '>') {  // <SchedulerType.LINEAR: 'linear'>
    const auto quote = text.find('\''), end = text.rfind('\'');
    if (quote != std::string_view::npos && end > quote)
      return text.substr(quote + 1, end - quote - 1);
    text = text.substr(1, text.size() - 2);
    text = text.substr(0, text.find(':'));
  }
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos || dot + 1 >= text.size() || !is_alpha(text.front()) ||
      is_digit(text[dot + 1]) || text.find(' ') != std::string_view::npos ||
      text.find('/') != std::string_view::npos)
    return text;
  return text.substr(dot + 1);
}

std::string dtype_name(std::string_view text) {
  text = trim(text);
  const std::string name = lower(enum_value(text));
  if (name == "bfloat16" || name == "bf16") return "bf16";
  if (name == "float16" || name == "half" || name == "fp16") return "fp16";
  if (name == "float32" || name == "float" || name == "fp32") return "fp32";
  if (name == "float64" || name == "double" || name == "fp64") return "fp64";
  if (name.substr(0, 7) == "float8_" || name == "uint8" || name == "fp8") return "fp8";
  return name;
}

void apply_rows(std::span<const NameRow> rows, const Names& names, Target& target) {
  for (const NameRow& row : rows) {
    const FlatSetting* setting = names.find(row.name);
    if (!setting) continue;
    const std::string_view value = trim(setting->value);
    if (is_none(value) || (row.how == How::list && value == "[]")) {
      if (!row.none.empty()) target.put_text(row.key, row.none, setting->line);
      continue;
    }
    switch (row.how) {
      case How::plain:
        target.put_text(row.key,
                        key_info(row.key).type == KeyType::text ? enum_value(value) : value,
                        setting->line);
        break;
      case How::lower:
        target.put_text(row.key, lower(enum_value(value)), setting->line);
        break;
      case How::dtype:
        target.put_text(row.key, dtype_name(value), setting->line);
        break;
      case How::negate:
        if (is_true(value))
          target.put(row.key, false, setting->line);
        else if (is_false(value))
          target.put(row.key, true, setting->line);
        break;
      case How::positive: {
        const auto number = read_double(value);
        if (number && *number > 0) target.put_text(row.key, value, setting->line);
        break;
      }
      case How::list: {
        std::string_view items = value;
        if (items.substr(0, 1) == "[" || items.substr(0, 1) == "(")
          items =
              items.substr(1, items.size() - (items.back() == ']' || items.back() == ')' ? 2 : 1));
        std::vector<std::string> words;
        for (std::string_view item : split(items, ',')) {
          item = trim(item);
          if (item.size() >= 2 && (item.front() == '\'' || item.front() == '"') &&
              item.back() == item.front())
            item = item.substr(1, item.size() - 2);
          for (const std::string_view word : split(enum_value(item), ' '))
            if (!word.empty() && words.size() < 256) words.emplace_back(word);
        }
        if (!words.empty())
          target.put(row.key, std::move(words), setting->line);
        else if (!row.none.empty())
          target.put_text(row.key, row.none, setting->line);
        break;
      }
      case How::window: {
        std::string_view rest = value;
        while (!rest.empty() && (rest.front() == '(' || rest.front() == '[' || rest.front() == ' '))
          rest.remove_prefix(1);
        if (const auto first = take_integer(rest); first && *first > 0)
          target.put(row.key, *first, setting->line);
        break;
      }
    }
  }
}

}  // namespace triage::parsers
