// One line of JSON as container runtimes and JSON loggers write it. Only the outer object is read; nothing recurses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/units.hpp"
#include "parsers/records/record.hpp"

namespace triage::parsers {

// Views look into the line.
struct JsonLine {
  std::string_view message;    // still escaped: append_json_string
  std::string_view exception;  // still escaped: exc_info, stack_trace, ...
  std::string_view node;
  std::optional<int> rank, local_rank;
  std::optional<std::int64_t> pid;
  std::optional<TimePoint> time;
  Level level = Level::unknown;
  bool system = false;         // journal export of a kernel line
};

// True when `text` is an object with a message: docker's {"log", "stream", "time"}, loggers' {"message"|"msg"|"event"|"textPayload"},
// the journal's {"MESSAGE", "PRIORITY", ...}. An object whose end was cut off counts when its message came before the cut.
bool read_json_line(std::string_view text, int default_year, JsonLine& out);

// Appends the text that a JSON string body (without its quotes) stands for. Bad escapes stay as they are.
void append_json_string(std::string_view body, std::string& out);

}  // namespace triage::parsers
