#include "parsers/config/yaml_lines.hpp"

#include <algorithm>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/python_literal.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kNoBlock = std::string::npos;

// The length of the key at the start of `text` if "key:" or "key: value" stands there, else 0.
// `after` is the offset of the value.
std::size_t key_length(std::string_view text, std::size_t& after) {
  std::size_t end = 0;
  if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
    end = text.find(text[0], 1);
    if (end == std::string_view::npos) return 0;
    ++end;
  } else {
    while (end < text.size() && (is_alnum(text[end]) || text[end] == '_' || text[end] == '.' ||
                                 text[end] == '-' || text[end] == '/' || text[end] == '$'))
      ++end;
  }
  if (end == 0 || end >= text.size() || text[end] != ':') return 0;
  if (end + 1 < text.size() && text[end + 1] != ' ') return 0;
  after = end + 1;
  return end;
}

std::string_view unquote(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front())
    return text.substr(1, text.size() - 2);
  return text;
}

// Without a comment (" # ...") and, if it is whole, without its quotes.
std::string_view scalar(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() != '"' && text.front() != '\'') {
    const auto comment = text.find(" #");
    if (comment != std::string_view::npos) text = trim(text.substr(0, comment));
  }
  return unquote(text);
}

}  // namespace

void YamlLines::pop_to(std::size_t indent, bool item) {
  while (!levels_.empty()) {
    const Level& top = levels_.back();
    if (top.indent < indent) return;
    // "key:\n- a" puts its items at the key's own indentation.
    if (item && top.indent == indent && (top.list || top.items == 0)) return;
    levels_.pop_back();
  }
}

void YamlLines::emit(std::string path, std::string_view value, std::uint64_t number) {
  if (settings_.size() >= limits::kSettings) return;
  value = scalar(value);
  if (!value.empty() && value.front() == '{') {
    const FlatLiteral literal = read_literal(value);
    for (const FlatSetting& setting : literal.settings)
      if (settings_.size() < limits::kSettings)
        settings_.push_back({path + "." + setting.name, setting.value, number, 0});
    return;
  }
  settings_.push_back({std::move(path), std::string(value.substr(0, kFlatValueBytes)), number, 0});
}

void YamlLines::add_pair(std::string_view key, std::string_view value, std::size_t indent,
                         std::uint64_t number) {
  pop_to(indent, false);
  std::string path = levels_.empty() ? std::string() : levels_.back().path;
  if (levels_.size() >= limits::kYamlDepth || path.size() > 1024) return;
  if (!path.empty()) path += '.';
  path += unquote(key);
  value = trim(value);
  if (value.empty() || value.front() == '#') {
    levels_.push_back({indent, std::move(path), false, 0, -1});
  } else if (value.front() == '|' || value.front() == '>') {
    block_ = indent;
  } else {
    emit(std::move(path), value, number);
  }
}

void YamlLines::add_item(std::string_view rest, std::size_t indent, std::uint64_t number) {
  pop_to(indent, true);
  if (levels_.empty()) return;
  Level& list = levels_.back();
  list.list = true;
  const std::size_t index = list.items++;
  std::size_t after = 0;
  const std::size_t key = key_length(rest, after);
  if (key > 0) {  // an item that is a map: its keys stand two columns further in
    if (levels_.size() >= limits::kYamlDepth) return;
    levels_.push_back({indent + 1, list.path + "[" + std::to_string(index) + "]", false, 0, -1});
    add_pair(rest.substr(0, key), rest.substr(after), indent + 2, number);
    return;
  }
  if (list.setting < 0) {
    if (settings_.size() >= limits::kSettings) return;
    list.setting = static_cast<std::ptrdiff_t>(settings_.size());
    settings_.push_back({list.path, "[]", number, 0});
  }
  std::string& value = settings_[static_cast<std::size_t>(list.setting)].value;
  if (value.size() > kFlatValueBytes) return;
  value.pop_back();
  if (value.size() > 1) value += ", ";
  value += scalar(rest);
  value += ']';
}

bool YamlLines::add(std::string_view line, std::uint64_t number) {
  line = trim_right(line);
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view text = line.substr(indent);
  if (text.empty() || text.front() == '#') return true;
  if (base_ != std::string::npos && indent < base_) {
    outdented_ = true;
    return false;
  }
  if (block_ != kNoBlock) {
    if (indent > block_) return true;
    block_ = kNoBlock;
  }
  if (text == "---" || text == "...") return true;
  std::size_t after = 0;
  const bool item = text == "-" || text.substr(0, 2) == "- ";
  const std::size_t key = item ? 0 : key_length(text, after);
  if (!item && key == 0)
    return !levels_.empty() && indent > levels_.back().indent;  // a folded text goes on
  if (base_ == std::string::npos) base_ = indent;
  if (item)
    add_item(trim(text.substr(1)), indent, number);
  else
    add_pair(text.substr(0, key), text.substr(after), indent, number);
  return true;
}

FlatSettings YamlLines::take() {
  FlatSettings out = std::move(settings_);
  *this = YamlLines();
  return out;
}

}  // namespace triage::parsers
