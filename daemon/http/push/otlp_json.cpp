#include <algorithm>

#include "daemon/http/json_reader.hpp"
#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/origin_names.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

using parsers::Result;
using parsers::Status;
using Token = JsonReader::Token;

namespace {

// Calls member(key) for each member of the object whose opening bracket was read; the reader stands before the value, which member reads whole.
template <class Member>
Status each_member(JsonReader& reader, Member&& member) {
  for (Token token = reader.next(); token != Token::end_object; token = reader.next()) {
    if (token != Token::key) return reader.error();
    TRIAGE_CHECK(member(std::string(reader.text())));
  }
  return parsers::done();
}

Status skip_value(JsonReader& reader) {
  if (reader.next() == Token::fault || !reader.skip()) return reader.error();
  return parsers::done();
}

// A list of objects; item reads one, its opening bracket read. null is an empty list.
template <class Item>
Status each_object(JsonReader& reader, const char* what, Item&& item) {
  Token token = reader.next();
  if (token == Token::null) return parsers::done();
  if (token != Token::begin_array) {
    reader.fail(std::string(what) + " has to be a list");
    return reader.error();
  }
  for (token = reader.next(); token != Token::end_array; token = reader.next()) {
    if (token != Token::begin_object) {
      reader.fail(std::string("a member of ") + what + " has to be an object");
      return reader.error();
    }
    TRIAGE_CHECK(item());
  }
  return parsers::done();
}

// An AnyValue as text: a text as it is; of a map the member that holds a message; of other things their JSON. whole: the body.
Status any_value(JsonReader& reader, std::string_view whole, std::optional<std::string>& out) {
  Token token = reader.next();
  if (token == Token::null) return parsers::done();
  if (token != Token::begin_object) {
    reader.fail("a value has to be an object such as {\"stringValue\": ...}");
    return reader.error();
  }
  return each_member(reader, [&](const std::string& key) -> Status {
    token = reader.next();
    const std::size_t begin = reader.offset();
    if (token == Token::text || token == Token::number) {
      out = std::string(reader.text());
      return parsers::done();
    }
    if (token == Token::yes || token == Token::no) {
      out = token == Token::yes ? "true" : "false";
      return parsers::done();
    }
    if (!reader.skip()) return reader.error();
    const std::string_view json = whole.substr(begin, reader.end_offset() - begin);
    out = std::string(json);
    if (key != "kvlistValue") return parsers::done();
    // {"values": [{"key": "message", "value": {"stringValue": "..."}}]}, one level.
    JsonReader inside(json);
    std::string name;
    bool wanted = false;
    for (Token at = inside.next(); at != Token::end && at != Token::fault; at = inside.next()) {
      if (at == Token::key)
        name = std::string(inside.text());
      else if (at == Token::text && name == "key")
        wanted = inside.text() == "message" || inside.text() == "msg" || inside.text() == "log" || inside.text() == "body";
      else if (at == Token::text && name == "stringValue" && wanted && inside.depth() == 4) {
        out = std::string(inside.text());
        break;
      }
    }
    return parsers::done();
  });
}

// [{"key": "...", "value": {AnyValue}}]. all: every one; else those that say where the record comes from.
Status attributes(JsonReader& reader, std::string_view whole, bool all, Labels& out) {
  return each_object(reader, "attributes", [&]() -> Status {
    std::string name;
    std::optional<std::string> value;
    const auto member = [&](const std::string& key) -> Status {
      if (key == "value") return any_value(reader, whole, value);
      if (key != "key") return skip_value(reader);
      if (reader.next() != Token::text) {
        reader.fail("the key of an attribute has to be a text");
        return reader.error();
      }
      name = std::string(reader.text());
      return parsers::done();
    };
    TRIAGE_CHECK(each_member(reader, member));
    if (!name.empty() && value && value->size() <= kLabelBytes && out.size() < kStreamLabels && (all || says_origin(name))) out.emplace_back(std::move(name), std::move(*value));
    return parsers::done();
  });
}

struct Record {
  PushedLine line;
  Labels labels;
  bool has_text = false;
};

Status read_time_member(JsonReader& reader, std::optional<parsers::TimePoint>& out) {
  const Token token = reader.next();
  if (token == Token::text || token == Token::number) {
    if (const auto time = read_nanoseconds(reader.text())) out = time;
    return parsers::done();
  }
  if (!reader.skip()) return reader.error();
  return parsers::done();
}

Status log_record(JsonReader& reader, std::string_view whole, Record& record) {
  std::optional<parsers::TimePoint> observed;
  const auto member = [&](const std::string& key) -> Status {
    if (key == "timeUnixNano" || key == "time_unix_nano") return read_time_member(reader, record.line.time);
    if (key == "observedTimeUnixNano" || key == "observed_time_unix_nano") return read_time_member(reader, observed);
    if (key == "attributes") return attributes(reader, whole, false, record.labels);
    if (key != "body") return skip_value(reader);
    std::optional<std::string> text;
    TRIAGE_CHECK(any_value(reader, whole, text));
    if (text) record.line.text = std::move(*text);
    record.has_text = text.has_value();
    return parsers::done();
  };
  TRIAGE_CHECK(each_member(reader, member));
  if (!record.line.time) record.line.time = observed;
  return parsers::done();
}

Status resource_logs(JsonReader& reader, std::string_view whole, BatchBuilder& batch) {
  Labels resource;
  std::vector<Record> records;           // the resource may follow its records
  const auto one_record = [&]() -> Status {
    Record record;
    TRIAGE_CHECK(log_record(reader, whole, record));
    if (records.size() >= kBatchLines) return parsers::Error(parsers::ErrorCode::limit, "the batch has more than " + std::to_string(kBatchLines) + " lines");
    records.push_back(std::move(record));
    return parsers::done();
  };
  const auto member = [&](const std::string& key) -> Status {
    if (key == "resource") {
      const Token token = reader.next();
      if (token == Token::null) return parsers::done();
      if (token != Token::begin_object) {
        reader.fail("resource has to be an object");
        return reader.error();
      }
      return each_member(reader, [&](const std::string& inner) { return inner == "attributes" ? attributes(reader, whole, true, resource) : skip_value(reader); });
    }
    if (key != "scopeLogs" && key != "scope_logs" && key != "instrumentationLibraryLogs") return skip_value(reader);
    return each_object(reader, "scopeLogs", [&] {
      return each_member(reader, [&](const std::string& inner) -> Status {
        if (inner != "logRecords" && inner != "log_records" && inner != "logs") return skip_value(reader);
        return each_object(reader, "logRecords", one_record);
      });
    });
  };
  TRIAGE_CHECK(each_member(reader, member));
  for (Record& record : records) {
    if (!record.has_text) {
      batch.reject("a log record has no body");
      continue;
    }
    Labels labels = resource;
    for (auto& label : record.labels)
      if (labels.size() < kStreamLabels) labels.push_back(std::move(label));
    TRIAGE_TRY(const std::size_t stream, batch.stream(std::move(labels)));
    TRIAGE_CHECK(batch.add(stream, std::move(record.line)));
  }
  return parsers::done();
}

}  // namespace

Result<PushedBatch> read_otlp_json(std::string_view body) {
  JsonReader reader(body);
  BatchBuilder batch;
  if (reader.next() != Token::begin_object) {
    reader.fail("the body has to be an object with resourceLogs");
    return reader.error();
  }
  TRIAGE_CHECK(each_member(reader, [&](const std::string& key) -> Status {
    if (key != "resourceLogs" && key != "resource_logs") return skip_value(reader);
    return each_object(reader, "resourceLogs", [&] { return resource_logs(reader, body, batch); });
  }));
  if (reader.next() != Token::end) return reader.error();
  return batch.take();
}

}  // namespace triage::daemon::api
