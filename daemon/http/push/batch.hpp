// What the readers of pushed bodies make: streams of lines by labels, with limits. The readers are pure and take any bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/http/push_sink.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon::api {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Limits on one batch, besides the sizes of the body.
inline constexpr std::size_t kBatchLines = 1'000'000;      // shippers send some thousands
inline constexpr std::size_t kBatchStreams = 20'000;       // one a rank and stream of a large job, and room
inline constexpr std::size_t kStreamLabels = 64;           // Loki's own default is 15
inline constexpr std::size_t kLabelBytes = 2048;           // of a name or a value: Loki's defaults are 1024 and 2048

struct PushedBatch {
  std::vector<PushedStream> streams;                       // each with at least one line
  std::uint64_t lines = 0;
  std::uint64_t rejected = 0;                              // records without a text, counted and left out
  std::string why;                                         // of the first rejected one
};

// Collects lines into streams. Labels that agree, in any order, are one stream.
class BatchBuilder {
 public:
  // The stream of these labels. Errors (limit): too many streams or labels, a label too long.
  parsers::Result<std::size_t> stream(Labels labels);
  // Error (limit): too many lines.
  parsers::Status add(std::size_t stream, PushedLine line);
  void reject(std::string why);
  PushedBatch take();

 private:
  PushedBatch batch_;
  std::map<std::string, std::size_t, std::less<>> known_;
};

// Loki's push request as JSON: {"streams": [{"stream": {labels}, "values": [["<nanoseconds>", "line", {metadata}]]}]}.
// grafana/loki pkg/loghttp/push. Errors: syntax with the byte, limit.
parsers::Result<PushedBatch> read_loki_json(std::string_view body);
// The same as protobuf (logproto.PushRequest), unpacked.
parsers::Result<PushedBatch> read_loki_protobuf(std::string_view body);

// OTLP's ExportLogsServiceRequest as JSON and as protobuf. Labels are the attributes of the resource, and of a record those that say where it
// comes from (log.file.*, log.iostream, host.name, k8s.*). open-telemetry/opentelemetry-proto, opentelemetry/proto/logs/v1.
parsers::Result<PushedBatch> read_otlp_json(std::string_view body);
parsers::Result<PushedBatch> read_otlp_protobuf(std::string_view body);

// Records as HTTP sinks of Vector and Fluent Bit send them: objects one a line, one after another, or in arrays; a bare text is a line.
// The line stands under message, log, msg, MESSAGE or body; the time under timestamp, @timestamp, time, date or ts. Members that name where a
// record comes from (host, file, kubernetes.pod_name, rank, ...) become labels. given: labels of the request, over those of the records.
parsers::Result<PushedBatch> read_ndjson(std::string_view body, const Labels& given);

// Label text of Prometheus, {name="value", other="x"}, as in Loki's protobuf. Empty for malformed text.
std::optional<Labels> read_label_text(std::string_view text);

// Nanoseconds since 1970 as decimal text.
std::optional<parsers::TimePoint> read_nanoseconds(std::string_view text);

}  // namespace triage::daemon::api
