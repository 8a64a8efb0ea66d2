#include "daemon/http/json_reader.hpp"
#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/protobuf_reader.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::Status;
using parsers::TimePoint;
using Token = JsonReader::Token;

namespace {

// {"name": "value", ...}, its opening bracket read.
Status json_labels(JsonReader& reader, Labels& out) {
  for (Token token = reader.next(); token != Token::end_object; token = reader.next()) {
    if (token != Token::key) return reader.error();
    std::string name(reader.text());
    token = reader.next();
    if (token != Token::text) {
      if (token != Token::fault) reader.fail("the value of a label has to be a text");
      return reader.error();
    }
    out.emplace_back(std::move(name), std::string(reader.text()));
    if (out.size() > kStreamLabels) return Error(ErrorCode::limit, "a stream has more than " + std::to_string(kStreamLabels) + " labels");
  }
  return parsers::done();
}

// ["nanoseconds", "line", {...}], its opening bracket read.
Status json_entry(JsonReader& reader, std::vector<PushedLine>& out) {
  PushedLine line;
  Token token = reader.next();
  if (token == Token::text || token == Token::number) {
    line.time = read_nanoseconds(reader.text());
    if (!line.time) token = reader.fail("a time is no number of nanoseconds since 1970");
  }
  if (token != Token::text && token != Token::number) {
    reader.fail("an entry begins with its time, nanoseconds as text");
    return reader.error();
  }
  if (reader.next() != Token::text) {
    reader.fail("the second member of an entry has to be its line");
    return reader.error();
  }
  line.text = std::string(reader.text());
  for (token = reader.next(); token != Token::end_array; token = reader.next())   // structured metadata: not used
    if (token == Token::end || !reader.skip()) return reader.error();
  if (out.size() >= kBatchLines) return Error(ErrorCode::limit, "the batch has more than " + std::to_string(kBatchLines) + " lines").help("send smaller batches");
  out.push_back(std::move(line));
  return parsers::done();
}

Status json_stream(JsonReader& reader, BatchBuilder& batch) {
  Labels labels;
  std::vector<PushedLine> lines;         // labels may follow the lines
  for (Token token = reader.next(); token != Token::end_object; token = reader.next()) {
    if (token != Token::key) return reader.error();
    const bool is_labels = reader.text() == "stream", is_values = reader.text() == "values";
    token = reader.next();
    if (is_labels) {
      if (token != Token::begin_object) {
        reader.fail("stream has to be an object of labels");
        return reader.error();
      }
      TRIAGE_CHECK(json_labels(reader, labels));
    } else if (is_values) {
      if (token != Token::begin_array) {
        reader.fail("values has to be a list");
        return reader.error();
      }
      for (token = reader.next(); token != Token::end_array; token = reader.next()) {
        if (token != Token::begin_array) {
          reader.fail("an entry has to be a list of time and line");
          return reader.error();
        }
        TRIAGE_CHECK(json_entry(reader, lines));
      }
    } else if (!reader.skip()) {
      return reader.error();
    }
  }
  TRIAGE_TRY(const std::size_t stream, batch.stream(std::move(labels)));
  for (PushedLine& line : lines) TRIAGE_CHECK(batch.add(stream, std::move(line)));
  return parsers::done();
}

TimePoint stamp_time(std::int64_t seconds, std::int64_t nanoseconds) {
  return TimePoint(std::chrono::seconds(seconds)) + std::chrono::microseconds(nanoseconds / 1000);
}

// google.protobuf.Timestamp: seconds = 1, nanos = 2.
Result<std::optional<TimePoint>> protobuf_time(ProtobufReader reader) {
  std::int64_t seconds = 0, nanoseconds = 0;
  while (reader.next()) {
    if (reader.field() == 1 && reader.is_number()) seconds = static_cast<std::int64_t>(reader.number());
    if (reader.field() == 2 && reader.is_number()) nanoseconds = static_cast<std::int64_t>(reader.number());
  }
  if (reader.bad()) return reader.error();
  if (seconds <= 0 || seconds > 253402300799 || nanoseconds < 0 || nanoseconds > 999'999'999) return std::optional<TimePoint>();
  return std::optional<TimePoint>(stamp_time(seconds, nanoseconds));
}

// EntryAdapter: timestamp = 1, line = 2, structuredMetadata = 3.
Status protobuf_entry(ProtobufReader reader, std::size_t stream, BatchBuilder& batch) {
  PushedLine line;
  while (reader.next()) {
    if (reader.field() == 1 && reader.is_bytes()) {
      TRIAGE_TRY(line.time, protobuf_time(reader.message()));
    } else if (reader.field() == 2 && reader.is_bytes()) {
      line.text = std::string(reader.bytes());
    }
  }
  if (reader.bad()) return reader.error();
  return batch.add(stream, std::move(line));
}

// StreamAdapter: labels = 1, entries = 2, hash = 3. Labels stand first as writers write them, but need not.
Status protobuf_stream(ProtobufReader reader, BatchBuilder& batch) {
  Labels labels;
  ProtobufReader again = reader;
  while (reader.next()) {
    if (reader.field() != 1 || !reader.is_bytes()) continue;
    auto read = read_label_text(reader.bytes());
    if (!read)
      return Error(ErrorCode::syntax, "the labels of a stream cannot be read").because("they begin '" + parsers::repair_utf8(reader.bytes().substr(0, 60)) + "'").help("{name=\"value\"}");
    labels = std::move(*read);
  }
  if (reader.bad()) return reader.error();
  TRIAGE_TRY(const std::size_t stream, batch.stream(std::move(labels)));
  while (again.next())
    if (again.field() == 2 && again.is_bytes()) TRIAGE_CHECK(protobuf_entry(again.message(), stream, batch));
  return parsers::done();
}

}  // namespace

Result<PushedBatch> read_loki_json(std::string_view body) {
  JsonReader reader(body);
  BatchBuilder batch;
  if (reader.next() != Token::begin_object) {
    reader.fail("the body has to be an object with streams");
    return reader.error();
  }
  for (Token token = reader.next(); token != Token::end_object; token = reader.next()) {
    if (token != Token::key) return reader.error();
    const bool is_streams = reader.text() == "streams";
    token = reader.next();
    if (!is_streams) {
      if (!reader.skip()) return reader.error();
      continue;
    }
    if (token == Token::null) continue;
    if (token != Token::begin_array) {
      reader.fail("streams has to be a list");
      return reader.error();
    }
    for (token = reader.next(); token != Token::end_array; token = reader.next()) {
      if (token != Token::begin_object) {
        reader.fail("a stream has to be an object");
        return reader.error();
      }
      TRIAGE_CHECK(json_stream(reader, batch));
    }
  }
  if (reader.next() != Token::end) return reader.error();
  return batch.take();
}

Result<PushedBatch> read_loki_protobuf(std::string_view body) {
  ProtobufReader reader(body);
  BatchBuilder batch;
  while (reader.next())   // PushRequest: streams = 1
    if (reader.field() == 1 && reader.is_bytes()) TRIAGE_CHECK(protobuf_stream(reader.message(), batch));
  if (reader.bad()) return reader.error();
  return batch.take();
}

}  // namespace triage::daemon::api
