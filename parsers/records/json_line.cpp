#include "parsers/records/json_line.hpp"

#include <array>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/utf8.hpp"
#include "parsers/records/logger_prefix.hpp"
#include "parsers/records/timestamp.hpp"

namespace triage::parsers {
namespace {

constexpr int kMostKeys = 200;

// Position of the closing quote of the string whose body begins at `at`, or the end of the text.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at < text.size() ? at : text.size();
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// Behind the object or list that begins at `at`.
std::size_t skip_nested(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at++];
    if (c == '"') at = end_of_string(text, at) + 1;
    else if (c == '{' || c == '[') ++depth;
    else if ((c == '}' || c == ']') && --depth == 0) return at;
  }
  return text.size();
}

std::optional<int> rank_of(std::string_view value) {
  const auto number = read_integer(value);
  if (!number || *number < 0 || *number >= limits::kRanks) return std::nullopt;
  return static_cast<int>(*number);
}

// Lower is better; 0 = no message key.
int message_preference(std::string_view key) {
  constexpr std::array<std::string_view, 7> kKeys = {"message", "msg", "log", "MESSAGE", "textPayload", "event", "text"};
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    if (key == kKeys[i]) return static_cast<int>(i) + 1;
  return 0;
}

bool one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  for (const std::string_view k : keys)
    if (key == k) return true;
  return false;
}

class Reader {
 public:
  Reader(int default_year, JsonLine& out) : default_year_(default_year), out_(out) {}
  bool has_message() const { return preference_ != 0; }

  void take(std::string_view key, std::string_view value, bool quoted) {
    if (quoted) {
      const int preference = message_preference(key);
      if (preference != 0 && (preference_ == 0 || preference < preference_)) {
        preference_ = preference;
        out_.message = value;
        return;
      }
      if (one_of(key, {"exc_info", "exception", "exc_text", "stack_trace", "stacktrace", "traceback", "error.stack_trace"}) && !value.empty())
        out_.exception = value;
      if (one_of(key, {"host", "hostname", "node", "node_name", "pod", "pod_name", "_HOSTNAME"})) out_.node = value;
      if (one_of(key, {"level", "levelname", "severity", "lvl", "log.level", "loglevel"})) out_.level = level_word(value);
      if (one_of(key, {"SYSLOG_IDENTIFIER", "_TRANSPORT"}) && value == "kernel") out_.system = true;
    }
    if (one_of(key, {"rank", "global_rank"})) out_.rank = rank_of(value);
    if (key == "local_rank") out_.local_rank = rank_of(value);
    if (one_of(key, {"pid", "process", "process_id", "_PID"})) out_.pid = read_integer(value);
    if (key == "PRIORITY") out_.level = syslog_level(read_integer(value).value_or(-1));
    if (one_of(key, {"time", "timestamp", "ts", "@timestamp", "asctime", "created", "datetime", "__REALTIME_TIMESTAMP"})) {
      const auto stamp = read_timestamp(value, default_year_);
      out_.time = stamp ? std::optional(stamp->time) : read_epoch(value);
    }
  }

 private:
  int default_year_;
  JsonLine& out_;
  int preference_ = 0;
};

std::optional<std::uint32_t> four_hex(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t code = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const char c = to_lower(text[i]);
    if (is_digit(c)) code = code * 16 + static_cast<std::uint32_t>(c - '0');
    else if (c >= 'a' && c <= 'f') code = code * 16 + static_cast<std::uint32_t>(c - 'a' + 10);
    else return std::nullopt;
  }
  return code;
}

}  // namespace

bool read_json_line(std::string_view text, int default_year, JsonLine& out) {
  Reader reader(default_year, out);
  std::size_t at = skip_blanks(text, 0);
  if (at >= text.size() || text[at] != '{') return false;
  ++at;
  for (int keys = 0; keys < kMostKeys; ++keys) {
    at = skip_blanks(text, at);
    if (at >= text.size() || text[at] != '"') break;
    const std::size_t key_end = end_of_string(text, at + 1);
    const std::string_view key = text.substr(at + 1, key_end - at - 1);
    at = skip_blanks(text, key_end + 1);
    if (at >= text.size() || text[at] != ':') break;
    at = skip_blanks(text, at + 1);
    if (at >= text.size()) break;
    if (text[at] == '"') {
      const std::size_t end = end_of_string(text, at + 1);
      reader.take(key, text.substr(at + 1, end - at - 1), true);
      at = end + 1;
    } else if (text[at] == '{' || text[at] == '[') {
      at = skip_nested(text, at);
    } else {
      std::size_t end = at;
      while (end < text.size() && text[end] != ',' && text[end] != '}' && !is_space(text[end])) ++end;
      reader.take(key, text.substr(at, end - at), false);
      at = end;
    }
    at = skip_blanks(text, at);
    if (at >= text.size() || text[at] != ',') break;
    ++at;
  }
  return reader.has_message();
}

void append_json_string(std::string_view body, std::string& out) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 >= body.size()) {
      out.push_back(body[i]);
      continue;
    }
    const char c = body[++i];
    switch (c) {
      case 'n': out.push_back('\n'); break;
      case 't': out.push_back('\t'); break;
      case 'r': out.push_back('\r'); break;
      case 'b': out.push_back('\b'); break;
      case 'f': out.push_back('\f'); break;
      case '"': case '\\': case '/': out.push_back(c); break;
      case 'u': {
        auto code = four_hex(body.substr(i + 1));
        if (!code) {
          out += "\\u";
          break;
        }
        i += 4;
        if (*code >= 0xd800 && *code < 0xdc00 && body.substr(i + 1).starts_with("\\u")) {
          const auto low = four_hex(body.substr(i + 3));
          if (low && *low >= 0xdc00 && *low < 0xe000) {
            code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
            i += 6;
          }
        }
        append_utf8(*code >= 0xd800 && *code < 0xe000 ? 0xfffd : *code, out);
        break;
      }
      default:
        out.push_back('\\');
        out.push_back(c);
    }
  }
}

}  // namespace triage::parsers
