#include "parsers/config/dict_reader.hpp"

#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kForeignLines =
    200;  // that many lines of others in a row: the value broke off

}  // namespace

void DictReader::reset() {
  open_ = false;
  foreign_ = 0;
  text_.clear();
  brackets_ = BracketCounter();
}

Offer DictReader::offer(const Record& record) {
  if (!open_) {
    const std::size_t start = start_of(record.message);
    if (start == std::string_view::npos) return Offer::not_mine;
    reset();
    open_ = true;
    stream_ = Stream(record);
    const std::string_view rest = record.message.substr(start);
    if (!trim(rest).empty()) {
      text_.add(rest, record.line.number);
      brackets_.add(rest);
    }
    return brackets_.closed() ? Offer::finished : Offer::taken;
  }
  if (!stream_.owns(record))
    return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
  if (text_.full() || starts_again(record.message)) return Offer::ended_before;
  if (!fits(record.message))
    return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
  foreign_ = 0;
  text_.add(record.message, record.line.number);
  brackets_.add(record.message);
  return brackets_.closed() ? Offer::finished : Offer::taken;
}

void DictReader::finish(std::string_view file, RunConfig& config) {
  FlatLiteral literal = read_literal(text_.text());
  text_.number(literal.settings);
  if (!literal.settings.empty()) {
    Target target(config, file, std::string(name()));
    apply(literal.settings, target);
  }
  reset();
}

}  // namespace triage::parsers
