#include "parsers/config/line_facts.hpp"

#include "parsers/base/text.hpp"
#include "parsers/config/merge.hpp"

namespace triage::parsers {

Offer LineReader::offer(const Record& record) {
  keys_.clear();
  raw_.clear();
  frameworks_.clear();
  line_ = record.line.number;
  read(record.message, record);
  return keys_.empty() && raw_.empty() && frameworks_.empty() ? Offer::not_mine : Offer::finished;
}

void LineReader::finish(std::string_view file, RunConfig& config) {
  Target target(config, file, std::string(name()));
  target.raw(raw_);
  for (const std::string& name : frameworks_) add_framework(config, name);
  for (const Said& said : keys_) target.put_text(said.key, said.text, said.line);
  after(target);
  keys_.clear();
  raw_.clear();
  frameworks_.clear();
}

std::string_view after_mark(std::string_view text, std::string_view mark) {
  const auto at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

std::string digits_of(std::string_view text) {
  text = trim_left(text);
  std::string digits;
  for (std::size_t i = 0; i < text.size() && digits.size() < 18; ++i) {
    if (is_digit(text[i]))
      digits += text[i];
    else if (text[i] != ',' || digits.empty() || i + 1 >= text.size() || !is_digit(text[i + 1]))
      break;
  }
  return digits;
}

std::string number_after(std::string_view text, std::string_view mark) {
  return digits_of(after_mark(text, mark));
}

}  // namespace triage::parsers
