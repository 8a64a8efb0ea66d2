#include <algorithm>
#include <array>

#include "daemon/http/json_reader.hpp"
#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/origin_names.hpp"
#include "daemon/http/request_text.hpp"
#include "parsers/base/text.hpp"
#include "parsers/records/timestamp.hpp"

namespace triage::daemon::api {

using parsers::Result;
using parsers::Status;
using Token = JsonReader::Token;

namespace {

constexpr std::array kTexts = std::to_array<std::string_view>({"message", "log", "msg", "MESSAGE", "body"});          // the first that is there
constexpr std::array kTimes = std::to_array<std::string_view>({"timestamp", "@timestamp", "time", "date", "ts"});
constexpr std::size_t kRecordDepth = 6;   // members in members that can be labels: kubernetes.labels.x

// What one record said, its members at any depth joined by dots.
struct Record {
  std::optional<std::string> text;
  std::size_t text_order = kTexts.size();
  std::optional<parsers::TimePoint> time;
  std::size_t time_order = kTimes.size();
  Labels labels;
};

template <class Names>
std::size_t order_of(const Names& names, std::string_view name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::optional<parsers::TimePoint> time_of(Token token, std::string_view text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;   // no exponent
  if (digits) return parsers::read_epoch(text);
  if (token != Token::text) return std::nullopt;
  if (const auto time = read_time(text)) return time;
  const auto stamp = parsers::read_timestamp(text, 1970);
  return stamp && stamp->length == text.size() ? std::optional(stamp->time) : std::nullopt;
}

void take_member(Record& record, const std::string& name, bool outermost, Token token, std::string_view text) {
  if (outermost) {
    if (const std::size_t order = order_of(kTexts, name); order < record.text_order && token == Token::text) {
      record.text = std::string(text);
      record.text_order = order;
      return;
    }
    if (const std::size_t order = order_of(kTimes, name); order < record.time_order)
      if (const auto time = time_of(token, text)) {
        record.time = time;
        record.time_order = order;
        return;
      }
  }
  if (record.labels.size() < kStreamLabels && text.size() <= kLabelBytes && says_origin(name)) record.labels.emplace_back(name, std::string(text));
}

// An object, its opening bracket read. No recursion: the names of the open objects stand in a list.
Status read_record(JsonReader& reader, Record& record) {
  std::vector<std::size_t> heads;         // lengths of `name` at which the open objects begin
  std::string name;
  const std::size_t base = reader.depth();
  for (Token token = reader.next();; token = reader.next()) {
    if (token == Token::end_object) {
      if (reader.depth() < base) return parsers::done();
      name.resize(heads.back());
      heads.pop_back();
      continue;
    }
    if (token != Token::key) return reader.error();
    const std::size_t keep = name.size();
    if (!name.empty()) name += '.';
    name += reader.text().substr(0, 256);
    token = reader.next();
    if (token == Token::fault) return reader.error();
    if (token == Token::begin_object && heads.size() + 1 < kRecordDepth) {
      heads.push_back(keep);
      continue;
    }
    if (token == Token::begin_object || token == Token::begin_array) {
      if (!reader.skip()) return reader.error();
    } else if (token != Token::null) {
      take_member(record, name, heads.empty(), token, reader.text());
    }
    name.resize(keep);
  }
}

}  // namespace

Result<PushedBatch> read_ndjson(std::string_view body, const Labels& given) {
  JsonReader reader(body, true);
  BatchBuilder batch;
  for (Token token = reader.next(); token != Token::end; token = reader.next()) {
    if (token == Token::fault) return reader.error();
    if (token == Token::begin_array || token == Token::end_array) continue;   // around records
    Record record;
    if (token == Token::begin_object)
      TRIAGE_CHECK(read_record(reader, record));
    else if (token == Token::text)
      record.text = std::string(reader.text());
    if (!record.text) {
      batch.reject(token == Token::end_object || token == Token::begin_object ? "a record has none of message, log, msg, MESSAGE and body as a text" : "a record is neither an object nor a text");
      continue;
    }
    std::erase_if(record.labels, [&](const auto& label) { return std::any_of(given.begin(), given.end(), [&](const auto& own) { return own.first == label.first; }); });
    while (record.labels.size() + given.size() > kStreamLabels && !record.labels.empty()) record.labels.pop_back();
    record.labels.insert(record.labels.end(), given.begin(), given.end());
    TRIAGE_TRY(const std::size_t stream, batch.stream(std::move(record.labels)));
    TRIAGE_CHECK(batch.add(stream, {record.time, std::move(*record.text)}));
  }
  return batch.take();
}

}  // namespace triage::daemon::api
