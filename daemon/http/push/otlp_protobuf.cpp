#include <cstring>

#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/origin_names.hpp"
#include "daemon/http/push/protobuf_reader.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

using parsers::Result;
using parsers::Status;

namespace {

// KeyValue: key = 1, value = 2 (AnyValue).
struct Pair {
  std::string_view key;
  ProtobufReader value{{}};
};

Status read_pair(ProtobufReader reader, Pair& out) {
  while (reader.next()) {
    if (reader.field() == 1 && reader.is_bytes()) out.key = reader.bytes();
    if (reader.field() == 2 && reader.is_bytes()) out.value = reader.message();
  }
  if (reader.bad()) return reader.error();
  return parsers::done();
}

std::string number_text(double value) {
  char room[40];
  std::snprintf(room, sizeof room, "%.17g", value);
  return room;
}

// AnyValue: string 1, bool 2, int 3, double 4, array 5, kvlist 6, bytes 7. A text as it is; of a map the member that holds a message, else its
// members; values in values beyond one level are "[...]".
Status any_value(ProtobufReader reader, int level, std::optional<std::string>& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
      case 7:
        if (reader.is_bytes()) out = std::string(reader.bytes());
        break;
      case 2: out = reader.number() != 0 ? "true" : "false"; break;
      case 3: out = std::to_string(static_cast<std::int64_t>(reader.number())); break;
      case 4: {
        double value = 0;
        const std::uint64_t bits = reader.number();
        std::memcpy(&value, &bits, sizeof value);
        out = number_text(value);
        break;
      }
      case 5:
      case 6: {
        if (!reader.is_bytes()) break;
        if (level > 0) {
          out = "[...]";
          break;
        }
        std::string text;
        ProtobufReader list = reader.message();
        bool found = false;
        while (!found && list.next()) {   // values = 1
          if (list.field() != 1 || !list.is_bytes()) continue;
          Pair pair;
          if (reader.field() == 6)
            TRIAGE_CHECK(read_pair(list.message(), pair));
          else
            pair.value = list.message();
          std::optional<std::string> value;
          TRIAGE_CHECK(any_value(pair.value, 1, value));
          found = pair.key == "message" || pair.key == "msg" || pair.key == "log" || pair.key == "body";
          if (found) text.clear();
          if (!text.empty()) text += ' ';
          if (!found && !pair.key.empty()) text += std::string(pair.key) + "=";
          text += value.value_or("");
        }
        if (list.bad()) return list.error();
        out = std::move(text);
        break;
      }
      default: break;
    }
  }
  if (reader.bad()) return reader.error();
  return parsers::done();
}

Status attribute(ProtobufReader reader, bool all, Labels& out) {
  Pair pair;
  TRIAGE_CHECK(read_pair(reader, pair));
  if (pair.key.empty() || pair.key.size() > kLabelBytes || out.size() >= kStreamLabels || !(all || says_origin(pair.key))) return parsers::done();
  std::optional<std::string> value;
  TRIAGE_CHECK(any_value(pair.value, 0, value));
  if (value && value->size() <= kLabelBytes) out.emplace_back(std::string(pair.key), std::move(*value));
  return parsers::done();
}

// LogRecord: time_unix_nano = 1, body = 5, attributes = 6, observed_time_unix_nano = 11.
Status log_record(ProtobufReader reader, const Labels& resource, BatchBuilder& batch) {
  PushedLine line;
  Labels labels = resource;
  std::optional<std::string> text;
  std::uint64_t time = 0, observed = 0;
  while (reader.next()) {
    if (reader.field() == 1 && reader.is_number()) time = reader.number();
    if (reader.field() == 11 && reader.is_number()) observed = reader.number();
    if (reader.field() == 5 && reader.is_bytes()) TRIAGE_CHECK(any_value(reader.message(), 0, text));
    if (reader.field() == 6 && reader.is_bytes()) TRIAGE_CHECK(attribute(reader.message(), false, labels));
  }
  if (reader.bad()) return reader.error();
  if (!text) {
    batch.reject("a log record has no body");
    return parsers::done();
  }
  if (time == 0) time = observed;
  if (time > 0 && time <= 0x7fffffffffffffff) line.time = parsers::TimePoint(std::chrono::microseconds(time / 1000));
  line.text = std::move(*text);
  TRIAGE_TRY(const std::size_t stream, batch.stream(std::move(labels)));
  return batch.add(stream, std::move(line));
}

// ResourceLogs: resource = 1 (attributes = 1), scope_logs = 2 (log_records = 2).
Status resource_logs(ProtobufReader reader, BatchBuilder& batch) {
  Labels resource;
  ProtobufReader again = reader;
  while (reader.next()) {
    if (reader.field() != 1 || !reader.is_bytes()) continue;
    ProtobufReader inner = reader.message();
    while (inner.next())
      if (inner.field() == 1 && inner.is_bytes()) TRIAGE_CHECK(attribute(inner.message(), true, resource));
    if (inner.bad()) return inner.error();
  }
  if (reader.bad()) return reader.error();
  while (again.next()) {
    if (again.field() != 2 || !again.is_bytes()) continue;
    ProtobufReader scope = again.message();
    while (scope.next())
      if (scope.field() == 2 && scope.is_bytes()) TRIAGE_CHECK(log_record(scope.message(), resource, batch));
    if (scope.bad()) return scope.error();
  }
  return parsers::done();
}

}  // namespace

Result<PushedBatch> read_otlp_protobuf(std::string_view body) {
  ProtobufReader reader(body);
  BatchBuilder batch;
  while (reader.next())   // ExportLogsServiceRequest: resource_logs = 1
    if (reader.field() == 1 && reader.is_bytes()) TRIAGE_CHECK(resource_logs(reader.message(), batch));
  if (reader.bad()) return reader.error();
  return batch.take();
}

}  // namespace triage::daemon::api
