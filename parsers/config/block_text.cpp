#include "parsers/config/block_text.hpp"

#include <algorithm>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::parsers {

Stream::Stream(const Record& record)
    : rank_(record.rank),
      local_rank_(record.local_rank),
      task_(record.task),
      pid_(record.pid),
      node_(record.node),
      actor_(record.actor) {}

bool Stream::owns(const Record& record) const {
  if (!record.rank && !record.local_rank && !record.task && !record.pid && record.node.empty() &&
      record.actor.empty())
    return true;
  return record.rank == rank_ && record.local_rank == local_rank_ && record.task == task_ &&
         record.pid == pid_ && record.node == node_ && record.actor == actor_;
}

void BlockText::clear() {
  text_.clear();
  lines_.clear();
}

void BlockText::add(std::string_view line, std::uint64_t number) {
  if (full()) return;
  lines_.emplace_back(text_.size(), number);
  text_ += line;
  text_ += '\n';
}

bool BlockText::full() const {
  return lines_.size() >= limits::kConfigLines || text_.size() >= limits::kConfigBytes;
}

std::uint64_t BlockText::line_at(std::size_t offset) const {
  auto at =
      std::upper_bound(lines_.begin(), lines_.end(), offset,
                       [](std::size_t value, const auto& entry) { return value < entry.first; });
  return at == lines_.begin() ? 0 : std::prev(at)->second;
}

void BlockText::number(FlatSettings& settings, std::size_t shift) const {
  for (FlatSetting& setting : settings) setting.line = line_at(setting.offset + shift);
}

std::string_view without_logger(std::string_view message) {
  // "[INFO|trainer.py:1143] 2021-05-25 06:38:26,284 >> text" (transformers)
  if (!message.empty() && message.front() == '[') {
    const auto arrow = message.find(" >> ");
    if (arrow != std::string_view::npos && arrow < 96) return message.substr(arrow + 4);
  }
  for (int heads = 0; heads < 4; ++heads) {
    const std::string_view left = trim_left(message);
    if (left.empty()) break;
    if (left.front() == '[') {  // "[INFO] ", "[config.py:752:print] ", "[2021-05-25 06:38:26,358] "
      const auto end = left.find("] ");
      const std::string_view head = left.substr(0, end == std::string_view::npos ? 0 : end);
      if (head.empty() || head.size() > 64 ||
          !(contains(head, ".py:") || contains(head, "INFO") || contains(head, "WARN") ||
            contains(head, "Rank ") ||
            (head.size() > 10 && is_digit(head[1]) && is_digit(head[2]))))
        break;
      message = left.substr(end + 2);
      continue;
    }
    if (starts_with_any(left, {"INFO:", "WARNING:",
                               "DEBUG:"})) {  // "INFO:__main__:text" (logging's default form)
      const auto colon = left.find(':', left.find(':') + 1);
      if (colon == std::string_view::npos || colon > 128) break;
      const std::string_view name = left.substr(left.find(':') + 1, colon - left.find(':') - 1);
      if (name.find(' ') != std::string_view::npos) break;
      message = left.substr(colon + 1);
      continue;
    }
    break;
  }
  const auto dash = message.find(" - INFO - ");
  if (dash != std::string_view::npos && dash < 96) message = message.substr(dash + 10);
  return message;
}

bool literal_shaped(std::string_view line) {
  const std::string_view text = trim(line);
  if (text.empty()) return true;
  const char c = text.front();
  if (c == '"' || c == '\'' || c == '{' || c == '}' || c == '[' || c == ']' || c == '(' ||
      c == ')' || c == '-' || c == '<' || is_digit(c)) {
    // "[INFO] text" and "[2024-01-01 ...] text" are log lines
    if (c == '[' && text.size() > 2 &&
        (is_alpha(text[1]) || (is_digit(text[1]) && text.size() > 5 && text[5] == '-')))
      return false;
    if (is_digit(c) && text.size() > 5 && (text[4] == '-' || text[2] == ':')) return false;
    return true;
  }
  return starts_with_any(text, {"None", "True", "False", "null", "true", "false", "torch.",
                                "PosixPath", "nan", "inf"});
}

}  // namespace triage::parsers
