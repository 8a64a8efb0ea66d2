#include "parsers/records/prefix.hpp"

#include <algorithm>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/records/launcher_prefix.hpp"
#include "parsers/records/logger_prefix.hpp"
#include "parsers/records/stream_key.hpp"
#include "parsers/records/system_log.hpp"
#include "parsers/records/traceback_line.hpp"

namespace triage::parsers {
namespace {

constexpr int kMostPrefixes = 10;

// Ray's log deduplication, at the end of the line: "[repeated 6x across cluster] (Ray deduplicates logs by default. ...)".
// Source: ray python/ray/_private/ray_logging.
void cut_repeats(std::string_view& text, Record& record) {
  constexpr std::string_view kHead = "[repeated ";
  if (text.empty() || (text.back() != ']' && text.back() != ')' && text.back() != 'm' && text.back() != ' ')) return;
  const std::size_t at = text.rfind(kHead);
  if (at == std::string_view::npos) return;
  std::string_view rest = text.substr(at + kHead.size());
  const auto count = take_integer(rest);
  if (!count || *count < 1 || *count > limits::kRanks * 100LL || !consume(rest, "x across cluster]")) return;
  consume(rest, "[0m");
  const std::string_view note = trim(rest);
  if (!note.empty() && !note.starts_with("(Ray deduplicates logs")) return;
  record.repeats = static_cast<std::uint32_t>(*count);
  text = trim_right(text.substr(0, at));
  for (std::string_view color : {"[32m", "[36m", "[33m"})
    if (text.ends_with(color)) text = trim_right(text.substr(0, text.size() - color.size()));
}

// NCCL's own prefix "host:pid:tid [cudaDev] " (nccl src/debug.cc) and UCX's "[host:pid :n:tid]" stay in the message: rules
// know the lines by it. Only node, process and device are read.
void read_nccl_head(std::string_view text, Record& record) {
  if (text.empty() || text[0] == ' ') return;
  const std::string_view whole = text;
  const bool ucx = consume(text, "[");
  const std::size_t colon = text.substr(0, 254).find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 >= text.size() || !is_digit(text[colon + 1])) return;
  if (!contains(whole.substr(0, 256), ucx ? "Caught signal " : " NCCL ")) return;
  const std::string_view host = text.substr(0, colon);
  for (const char c : host)
    if (!is_alnum(c) && c != '-' && c != '.' && c != '_') return;
  std::string_view rest = text.substr(colon + 1);
  const auto pid = take_integer(rest);
  if (!pid) return;
  if (ucx) {
    if (!rest.starts_with(" :")) return;
  } else {
    std::string_view tail = rest;
    if (!consume(tail, ":") || !take_integer(tail) || !consume(tail, " [")) return;
    const auto device = take_integer(tail);
    if (device && tail.starts_with("]") && *device < limits::kRanks && !record.rank && !record.local_rank)
      record.local_rank = static_cast<int>(*device);
  }
  if (record.node.empty()) record.node = host;
  if (!record.pid) record.pid = *pid;
}

// What a ticket adds around a line: "> " of a quotation, and the marks of inline code and bold print around the whole line.
void strip_markup(std::string_view& text) {
  if (text.size() < 4 || std::string_view("`*>").find(text[0]) == std::string_view::npos) return;
  std::string_view rest = text;
  if (consume(rest, "> ") && (starts_with_any(rest, {"Traceback (most", "  File \"", "[rank", "    "}) || looks_like_exception(rest))) {
    text = rest;
    return;
  }
  rest = text;
  const std::string_view mark = rest.starts_with("**") ? rest.substr(0, 2) : rest.starts_with("`") && rest[1] != '`' ? rest.substr(0, 1) : std::string_view();
  if (mark.empty() || is_space(rest[mark.size()]) || rest[mark.size()] == '*') return;
  rest.remove_prefix(mark.size());
  std::string_view tail = trim_right(rest);
  const bool closed = tail.ends_with(mark) && (mark == "**" || std::count(tail.begin(), tail.end(), '`') % 2 == 1);
  if (closed) {
    tail.remove_suffix(mark.size());
    text = tail;
  } else if (!contains(rest, mark)) {
    text = rest;  // the mark closes on a later line
  }
}

// "(PID:927000, Device:3, RankID:3) " of torch_npu (NPUException.cpp formatErrorCode); -1: not in a group.
void read_ascend_place(std::string_view text, Record& record) {
  const std::string_view head = text.substr(0, 160);
  const std::size_t open = head.find("(PID:");
  if (open == std::string_view::npos) return;
  std::string_view rest = head.substr(open + 5);
  const auto pid = take_integer(rest);
  if (!pid || !consume(rest, ", Device:")) return;
  const auto device = take_integer(rest);
  if (!record.pid) record.pid = *pid;
  if (device && *device < limits::kRanks && !record.local_rank) record.local_rank = static_cast<int>(*device);
  if (!consume(rest, ", RankID:")) return;
  const auto rank = take_integer(rest);
  if (rank && *rank < limits::kRanks && !record.rank) record.rank = static_cast<int>(*rank);
}

// "[Rank 3] ", "[PG ID 0 PG GUID 0(default_pg) Rank 5] ", "[PG 0 Rank 5] ", "Rank 3, node ..., ": stays in the message.
// Only of the default group does the number in a process group mean the global rank.
void read_rank_words(std::string_view text, Record& record) {
  if (record.rank) return;
  std::string_view rest = text;
  if (consume(rest, "[PG ")) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos || close > 200) return;
    const std::string_view inside = rest.substr(0, close);
    const bool whole_world = contains(inside, "(default_pg)") || inside.starts_with("0 ") ||
                             (inside.starts_with("ID 0 ") && !contains(inside, "("));
    const std::size_t at = inside.rfind("Rank ");
    if (!whole_world || at == std::string_view::npos) return;
    rest = inside.substr(at + 5);
  } else if (!consume(rest, "[Rank ") && !consume(rest, "[rank ") && !consume(rest, "[RANK ") && !consume(rest, "[rank: ") &&
             !consume(rest, "[rank:") && !consume(rest, "[Rank: ") && !consume(rest, "[global rank ") && !consume(rest, "Rank ") &&
             !consume(rest, "rank ") && !consume(rest, "RANK ")) {
    return;
  }
  const auto number = take_integer(rest);
  if (!number || *number >= limits::kRanks) return;
  const bool bracket = text[0] == '[';
  if (!bracket && !rest.starts_with(':') && !rest.starts_with(',')) return;
  if (bracket && !rest.empty() && rest[0] != ']' && rest[0] != ' ' && rest[0] != ',' && rest[0] != '/') return;
  record.rank = static_cast<int>(*number);
}

}  // namespace

std::string_view Peeler::without_ansi(std::string_view text, std::size_t depth) {
  return has_ansi(text) ? strip_ansi_into(text, ansi_[depth]) : text;
}

std::string_view Peeler::unwrap_json(std::string_view text, Record& record, std::size_t depth) {
  JsonLine line;
  if (!read_json_line(text, default_year_, line)) return {};
  std::string& out = json_[depth];
  out.clear();
  append_json_string(line.message, out);
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
  if (!line.exception.empty()) {
    out.push_back('\n');
    append_json_string(line.exception, out);
    while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
  }
  if (line.rank) record.rank = line.rank;
  if (line.local_rank) record.local_rank = line.local_rank;
  if (line.pid) record.pid = line.pid;
  if (line.time) record.time = line.time;
  if (line.level != Level::unknown) record.level = line.level;
  if (!line.node.empty()) record.node = line.node;
  if (line.system) record.system = true;
  return without_ansi(out, depth + 1);
}

Record Peeler::peel(const Line& line) {
  Record record;
  record.line = line;
  std::string_view text = without_ansi(line.text, 0);
  strip_markup(text);
  std::size_t json_depth = 0;
  for (int step = 0; step < kMostPrefixes && !text.empty(); ++step) {
    if (text[0] == '{' && json_depth < kJsonDepth) {
      const std::string_view inner = unwrap_json(text, record, json_depth);
      if (inner.data() == nullptr) break;
      ++json_depth;
      text = inner;
      record.stream = stream_key(record);
      continue;
    }
    if (peel_system(text, record, default_year_) || peel_launcher(text, record))
      record.stream = stream_key(record);
    else if (!peel_logger(text, record, default_year_))
      break;
  }
  cut_repeats(text, record);
  read_nccl_head(text, record);
  read_rank_words(text, record);
  read_ascend_place(text, record);
  if (record.level == Level::unknown) record.level = level_of_head(text);
  if (!record.system) record.system = is_kernel_text(text);
  record.message = text;
  return record;
}

}  // namespace triage::parsers
