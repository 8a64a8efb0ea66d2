#include "parsers/records/logger_prefix.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/records/timestamp.hpp"

namespace triage::parsers {
namespace {

constexpr std::int64_t kLargestPid = 4'194'304;  // Linux PID_MAX_LIMIT; larger numbers in this place are thread handles

bool is_name_char(char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), is_name_char);
}

Level letter_level(char c) {
  switch (c) {
    case 'D': case 'V': case 'T': return Level::debug;
    case 'I': return Level::info;
    case 'W': return Level::warning;
    case 'E': return Level::error;
    case 'F': case 'C': return Level::fatal;
    default: return Level::unknown;
  }
}

std::string_view leading_word(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && end < 12 && is_alpha(text[end])) ++end;
  return end < text.size() && (is_digit(text[end]) || text[end] == '_') ? std::string_view() : text.substr(0, end);
}

std::string_view without_one_blank(std::string_view text) {
  if (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  return text;
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
}

// "- ", "| ", ">> ", "-- ", ": " between the parts of a prefix, with the blanks around.
bool skip_separator(std::string_view& text) {
  std::string_view rest = text;
  skip_blanks(rest);
  for (std::string_view mark : {"- ", "| ", ">> ", "-- ", ": "})
    if (consume(rest, mark)) {
      text = rest;
      return true;
    }
  return false;
}

// "olmo.util:158, rank=6": a place and the rank in one bracket (allenai/OLMo olmo/util.py).
bool place_with_rank(std::string_view inside, Record& record) {
  const std::size_t at = inside.rfind(", rank=");
  if (at == std::string_view::npos || !is_source_place(inside.substr(0, at))) return false;
  std::string_view number = inside.substr(at + 7);
  const auto rank = take_integer(number);
  if (!rank || *rank >= limits::kRanks || !number.empty()) return false;
  record.rank = static_cast<int>(*rank);
  return true;
}

// Takes a source place with what ends it: "worker.py:1612 -- ", "[file.py:12:fn] ", "module:function:12 - ", "model_runner.py:984] ".
bool skip_source(std::string_view& text, Record* record = nullptr) {
  std::string_view rest = text;
  skip_blanks(rest);
  if (consume(rest, "[") || consume(rest, "(")) {
    const std::size_t close = rest.substr(0, 200).find_first_of("])");
    if (close == std::string_view::npos) return false;
    const std::string_view inside = rest.substr(0, close);
    const bool name = is_name(inside) && (contains(inside, ".") || inside.starts_with("__"));
    const bool number = !inside.empty() && std::all_of(inside.begin(), inside.end(), is_digit) && inside.size() > 2;
    if (!is_source_place(inside) && !name && !number && !(record != nullptr && place_with_rank(inside, *record))) return false;
    rest.remove_prefix(close + 1);
    if (!consume(rest, ":")) skip_separator(rest);
    text = without_one_blank(rest);
    return true;
  }
  const std::size_t end = rest.substr(0, 200).find_first_of(" \t]");
  if (end == std::string_view::npos) return false;
  std::string_view token = rest.substr(0, end);
  const bool colon = token.ends_with(":");
  if (colon) token.remove_suffix(1);
  if (!is_source_place(token)) return false;
  rest.remove_prefix(end);
  if (consume(rest, "]")) {
    if (!consume(rest, ":")) skip_separator(rest);
    text = without_one_blank(rest);
    return true;
  }
  if (!colon && !skip_separator(rest)) return false;
  text = colon ? without_one_blank(rest) : rest;
  return true;
}

// [Rank 0] of DeepSpeed's log_dist, [PID:12] [RANK:0] of Axolotl: behind a source place they are prefixes.
void skip_rank_brackets(std::string_view& text, Record& record) {
  for (int i = 0; i < 2; ++i) {
    std::string_view rest = text;
    const bool pid = consume(rest, "[PID:");
    if (!pid && !consume(rest, "[Rank ") && !consume(rest, "[RANK:")) return;
    const auto number = take_integer(rest);
    if (!number || (!pid && *number >= limits::kRanks) || !consume(rest, "] ")) return;
    if (pid) record.pid = *number;
    else record.rank = static_cast<int>(*number);
    text = rest;
  }
}

// MosaicML Composer, behind its clock: ": rank0[1234][MainThread]: INFO: composer.trainer: text".
bool composer(std::string_view& text, Record& record) {
  std::string_view rest = text;
  if (!consume(rest, ": rank")) return false;
  const auto rank = take_integer(rest);
  if (!rank || *rank >= limits::kRanks || !consume(rest, "[")) return false;
  const auto pid = take_integer(rest);
  const std::size_t close = rest.substr(0, 80).find("]: ");
  if (!pid || close == std::string_view::npos) return false;
  rest.remove_prefix(close + 3);
  const std::size_t colon = rest.find(": ");
  const Level level = level_word(rest.substr(0, colon));
  if (level == Level::unknown) return false;
  rest.remove_prefix(colon + 2);
  const std::size_t name = rest.substr(0, 160).find(": ");
  if (name != std::string_view::npos && is_name(rest.substr(0, name)) && contains(rest.substr(0, name), ".")) rest.remove_prefix(name + 2);
  record.rank = static_cast<int>(*rank);
  record.pid = *pid;
  record.level = level;
  text = rest;
  return true;
}

// What stands between a clock and the message: names and places in any order around a level word. Takes nothing unless a level
// stands among the first four parts, so that the message's own words stay.
bool parts_with_level(std::string_view& text, Record& record) {
  std::string_view rest = text;
  int bare_words = 0;
  for (int part = 0; part < 4; ++part) {
    if (skip_separator(rest)) bare_words = 0;
    skip_blanks(rest);
    // A launcher's own prefix behind the clock, and wandb's, which is part of its messages.
    if (rest.empty() || starts_with_any(rest, {"(worker_", "(rank", "wandb: "})) return false;
    Level level = Level::unknown;
    if (rest[0] == '[' || rest[0] == '(') {
      const std::size_t close = rest.substr(0, 200).find(rest[0] == '[' ? ']' : ')');
      if (close == std::string_view::npos) return false;
      const std::string_view inside = trim(rest.substr(1, close - 1));
      level = level_word(inside);
      const bool number = !inside.empty() && std::all_of(inside.begin(), inside.end(), is_digit);
      if (level == Level::unknown && !is_name(inside) && !is_source_place(inside) && !number) return false;
      rest.remove_prefix(close + 1);
    } else {
      std::size_t end = 0;
      while (end < rest.size() && end < 200 && (is_name_char(rest[end]) || rest[end] == '/' || (rest[end] == ':' && end + 1 < rest.size() && !is_space(rest[end + 1])))) ++end;
      const std::string_view token = rest.substr(0, end);
      if (token.empty()) return false;
      level = level_word(token);
      std::string_view after = rest.substr(end);
      if (level == Level::unknown && token.find(':') != std::string_view::npos) {
        // "INFO:name:" without blanks
        const std::size_t colon = token.find(':');
        level = level_word(token.substr(0, colon));
        if (level != Level::unknown) after = rest.substr(colon);
      }
      if (level != Level::unknown && token[0] >= 'a') {
        // Small letters are a level only with a mark behind: "error: text", "error - text"; else a word of the message.
        std::string_view mark = after;
        if (!after.starts_with(":") && !skip_separator(mark)) return false;
        if (bare_words > 0) return false;   // "CUDA error: text" is the message's own
      }
      if (level == Level::unknown) {
        // One name may stand bare before the level; more words are prose.
        const bool plain_number = std::all_of(token.begin(), token.end(), is_digit);
        if (!is_name(token) && !is_source_place(token) && !plain_number) return false;
        if (after.starts_with(": ") && (token.ends_with("Error") || token.ends_with("Exception") || token.ends_with("Interrupt"))) return false;
        if (!consume(after, ":") && ++bare_words > 1) return false;
      }
      rest = after;
    }
    if (level == Level::unknown) continue;
    record.level = level;
    std::string_view tail = rest;
    bool separated = consume(tail, ":") || consume(tail, "]");
    if (separated) {
      tail = without_one_blank(tail);
      skip_separator(tail);
    } else {
      separated = skip_separator(tail);
      if (!separated) skip_blanks(tail);
    }
    if (skip_source(tail, &record)) skip_rank_brackets(tail, record);
    text = tail;
    return true;
  }
  return false;
}

// The rest of a prefix that began with a clock.
void after_clock(std::string_view& text, Record& record) {
  // Container runtime interface: "2023-..Z stderr F text"; P marks a part of a longer line.
  for (std::string_view stream : {" stderr F", " stdout F", " stderr P", " stdout P"}) {
    std::string_view rest = text;
    if (consume(rest, stream) && (rest.empty() || consume(rest, " "))) {
      text = rest;
      return;
    }
  }
  // TensorFlow: "2017-07-31 11:36:02.748547: W tensorflow/core/x.cc:273] text"
  std::string_view rest = text;
  if (consume(rest, ": ") && rest.size() > 2 && rest[1] == ' ' && letter_level(rest[0]) != Level::unknown) {
    std::string_view tail = rest.substr(2);
    const std::size_t close = tail.substr(0, 200).find(']');
    if (close != std::string_view::npos && is_source_place(tail.substr(0, close))) {
      record.level = letter_level(rest[0]);
      text = without_one_blank(tail.substr(close + 1));
      return;
    }
  }
  if (composer(text, record) || parts_with_level(text, record)) return;
  if (!skip_separator(text)) text = without_one_blank(text);
  if (skip_source(text, &record)) skip_rank_brackets(text, record);
}

// "1234 file.cc:12] ", behind the clock of glog, absl, c10 and torch's Python logger. `end` closes it.
bool glog_tail(std::string_view& text, Record& record) {
  skip_blanks(text);
  std::string_view rest = text;
  if (const auto thread = take_integer(rest); thread && rest.starts_with(" ")) {
    if (*thread > 0 && *thread <= kLargestPid) record.pid = *thread;
    text = trim_left(rest);
  }
  const std::size_t close = text.substr(0, 260).find(']');
  if (close == std::string_view::npos || !is_source_place(text.substr(0, close))) return false;
  text = without_one_blank(text.substr(close + 1));
  return true;
}

// "E0603 22:45:01.123456 1234 file.cc:12] "
bool glog(std::string_view& text, Record& record, int default_year) {
  const auto stamp = read_timestamp(text, default_year);
  if (!stamp) return false;
  const Level level = letter_level(text[0]);
  std::string_view rest = text.substr(stamp->length);
  Record read = record;
  if (!glog_tail(rest, read)) return false;
  record = read;
  record.time = stamp->time;
  record.level = level;
  text = rest;
  return true;
}

// "[E ProcessGroupNCCL.cpp:475] ", "[E1203 10:11:12.123456789 ProcessGroupNCCL.cpp:616] "
bool c10(std::string_view& text, Record& record, int default_year) {
  std::string_view rest = text.substr(1);
  const Level level = letter_level(rest[0]);
  if (level == Level::unknown || rest.size() < 4) return false;
  if (rest[1] == ' ') {
    rest.remove_prefix(2);
    Record read = record;
    if (!glog_tail(rest, read)) return false;
    record = read;
  } else if (is_digit(rest[1])) {
    if (!glog(rest, record, default_year)) return false;
  } else {
    return false;
  }
  record.level = level;
  text = rest;
  return true;
}

// SGLang "[2025-05-27 04:36:06 DP1 TP4] ": the worker's place in the layout is its name.
bool is_layout(std::string_view text) {
  if (text.empty() || text.size() > 40) return false;
  for (const std::string_view word : split(text, ' ')) {
    std::size_t letters = 0;
    while (letters < word.size() && word[letters] >= 'A' && word[letters] <= 'Z') ++letters;
    if (letters < 2 || letters == word.size() || !std::all_of(word.begin() + static_cast<std::ptrdiff_t>(letters), word.end(), is_digit)) return false;
  }
  return true;
}

// "[2024-01-01 10:00:00,123] ", "[2025-05-27 04:36:06 DP1 TP4] ", "[2024-01-01T10:00:00Z INFO  mod] ", "[12/03/24 10:11:12] ".
bool clock_bracket(std::string_view& text, Record& record, int default_year) {
  std::string_view rest = text.substr(1);
  consume(rest, "task ");
  const auto stamp = read_timestamp(rest, default_year);
  if (!stamp) return false;
  const std::size_t close = rest.substr(0, 200).find(']');
  if (close == std::string_view::npos || close < stamp->length) return false;
  std::string_view inside = trim(rest.substr(stamp->length, close - stamp->length));
  record.time = stamp->time;
  if (is_layout(inside)) {
    record.actor = inside;
    if (const std::size_t at = inside.find("TP"); at != std::string_view::npos) {  // the tensor-parallel rank numbers the processes of a server
      std::string_view number = inside.substr(at + 2);
      if (const auto rank = take_integer(number); rank && *rank < limits::kRanks && !record.local_rank) record.local_rank = static_cast<int>(*rank);
    }
  } else if (!inside.empty()) {
    for (std::string_view mark : {"- ", "| ", ", "}) consume(inside, mark);
    const Level level = level_word(leading_word(inside));
    if (level != Level::unknown) record.level = level;
  }
  text = rest.substr(close + 1);
  after_clock(text, record);
  return true;
}

// transformers "[INFO|trainer.py:1339] 2021-05-25 06:53:45,378 >> text"; LLaMA-Factory "[INFO|2024-10-03 01:30:20] module:355 >> text".
bool bar_bracket(std::string_view& text, Record& record, int default_year) {
  std::string_view rest = text.substr(1);
  const std::string_view word = leading_word(rest);
  const Level level = level_word(word);
  if (level == Level::unknown || !rest.substr(word.size()).starts_with("|")) return false;
  const std::size_t close = rest.substr(0, 260).find(']');
  if (close == std::string_view::npos) return false;
  std::string_view inside = rest.substr(word.size() + 1, close - word.size() - 1);
  rest = rest.substr(close + 1);
  auto stamp = read_timestamp(inside, default_year);
  if (!stamp) {
    std::string_view after = without_one_blank(rest);
    stamp = read_timestamp(after, default_year);
    if (stamp) rest = after.substr(stamp->length);
  }
  if (stamp) record.time = stamp->time;
  record.level = level;
  const std::size_t mark = rest.substr(0, 200).find(">> ");
  if (mark != std::string_view::npos && is_source_place(trim(rest.substr(0, mark))))
    rest.remove_prefix(mark + 3);
  else if (!skip_separator(rest))
    rest = without_one_blank(rest);
  text = rest;
  return true;
}

// "[NeMo W 2024-01-01 10:00:00 nemo_logging:349] "
bool nemo(std::string_view& text, Record& record, int default_year) {
  std::string_view rest = text;
  if (!consume(rest, "[NeMo ") || rest.size() < 3) return false;
  const Level level = letter_level(rest[0]);
  const std::size_t close = rest.substr(0, 260).find(']');
  if (level == Level::unknown || rest[1] != ' ' || close == std::string_view::npos) return false;
  if (const auto stamp = read_timestamp(rest.substr(2), default_year)) record.time = stamp->time;
  record.level = level;
  text = without_one_blank(rest.substr(close + 1));
  return true;
}

// "[ERROR] 2024-01-01 10:00:00 text": the level's bracket goes only before a clock.
bool level_bracket(std::string_view& text, Record& record, int default_year) {
  const std::size_t close = text.substr(0, 14).find(']');
  if (close == std::string_view::npos) return false;
  const Level level = level_word(trim(text.substr(1, close - 1)));
  if (level == Level::unknown) return false;
  std::string_view rest = without_one_blank(text.substr(close + 1));
  const bool bracket = rest.starts_with("[");
  const auto stamp = read_timestamp(bracket ? rest.substr(1) : rest, default_year);
  if (!stamp) return false;
  record.level = level;
  text = rest;
  return true;
}

// "ERROR:root:text" of Python's basicConfig; "ERROR 07-02 10:11:12 worker.py:12] text" of vLLM.
bool level_first(std::string_view& text, Record& record, int default_year) {
  const std::string_view word = leading_word(text);
  if (word.size() < 4 || word[0] < 'A' || word[0] > 'Z' || word[1] > 'Z') return false;
  const Level level = level_word(word);
  if (level == Level::unknown) return false;
  std::string_view rest = text.substr(word.size());
  if (consume(rest, ":")) {
    const std::size_t colon = rest.substr(0, 160).find(':');
    if (colon == std::string_view::npos || !is_name(rest.substr(0, colon))) return false;
    record.level = level;
    text = rest.substr(colon + 1);
    return true;
  }
  skip_blanks(rest);
  if (const auto stamp = read_timestamp(rest, default_year); stamp && !is_alpha(rest[0])) {
    record.level = level;
    record.time = stamp->time;
    text = rest.substr(stamp->length);
    if (!skip_separator(text)) text = without_one_blank(text);
    skip_source(text);
    return true;
  }
  return false;
}

// containerd, dockerd: time="2024-01-01T10:00:00Z" level=error msg="...". Read, and left in the message.
void read_logfmt(std::string_view text, Record& record, int default_year) {
  if (!consume(text, "time=\"")) return;
  if (const auto stamp = read_timestamp(text, default_year)) record.time = stamp->time;
  const std::size_t at = text.substr(0, 120).find(" level=");
  if (at != std::string_view::npos) record.level = level_word(leading_word(text.substr(at + 7)));
}

// A clock without a date is taken off only before what shows that it was one of a prefix.
bool bare_clock(std::string_view& text, Record& record) {
  const std::size_t length = clock_length(text);
  if (length == 0 || length >= text.size() || text[length] != ' ') return false;
  std::string_view rest = text.substr(length + 1);
  if (rest.starts_with("[") || rest.starts_with(" ")) {
    text = trim_left(rest);
    return true;
  }
  return parts_with_level(text = text.substr(length), record) || (text = rest, true);
}

}  // namespace

Level level_word(std::string_view word) {
  if (word.empty() || word.size() > 9) return Level::unknown;
  std::array<char, 9> lower{};
  bool upper = false, small = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    lower[i] = to_lower(word[i]);
    (lower[i] == word[i] ? small : upper) = true;
  }
  const std::string_view text(lower.data(), word.size());
  // "Error" and "Warning" begin sentences; loggers write capitals or small letters throughout, some only a first capital.
  if (upper && small && !(word[0] < 'a' && text == "info")) {
    if (text != "warning" && text != "error" && text != "debug") return Level::unknown;
  }
  constexpr std::array<std::pair<std::string_view, Level>, 20> kWords = {{
      {"debug", Level::debug}, {"trace", Level::debug}, {"verbose", Level::debug}, {"info", Level::info}, {"notice", Level::info},
      {"success", Level::info}, {"warning", Level::warning}, {"warn", Level::warning}, {"error", Level::error}, {"err", Level::error},
      {"severe", Level::error}, {"critical", Level::fatal}, {"crit", Level::fatal}, {"fatal", Level::fatal},
      {"emerg", Level::fatal}, {"alert", Level::fatal}, {"panic", Level::fatal}, {"default", Level::info}, {"emergency", Level::fatal},
      {"dbg", Level::debug}}};
  for (const auto& [name, level] : kWords)
    if (text == name) return level;
  return Level::unknown;
}

Level syslog_level(std::int64_t priority) {
  constexpr std::array<Level, 8> kLevels = {Level::fatal, Level::fatal, Level::fatal, Level::error,
                                            Level::warning, Level::info, Level::info, Level::debug};
  return priority >= 0 && priority < 8 ? kLevels[static_cast<std::size_t>(priority)] : Level::unknown;
}

Level level_of_head(std::string_view message) {
  if (message.empty()) return Level::unknown;
  std::string_view rest = message;
  if (message[0] == 's' && starts_with_any(message, {"slurmstepd: ", "slurmctld: ", "slurmd: ", "srun: ", "sbatch: ", "salloc: "}))
    rest = message.substr(message.find(' ') + 1);
  const bool bracket = consume(rest, "[");
  const std::string_view word = leading_word(rest);
  if (word.size() < 4) return Level::unknown;
  const std::string_view after = rest.substr(word.size());
  const bool capitals = word[0] < 'a' && word[1] < 'a';
  if (bracket ? !after.starts_with("]") : !(after.starts_with(":") || (capitals && after.starts_with(" ")))) return Level::unknown;
  return level_word(word);
}

bool is_source_place(std::string_view text) {
  // file.ext:LINE, file.ext:LINE:function, module:LINE, module:function:LINE, with any folders; c10 has "file.cpp:828" only.
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > 250) return false;
  const std::string_view file = text.substr(0, colon);
  for (const char c : file)
    if (!is_name_char(c) && c != '/' && c != '<' && c != '>' && c != '\\') return false;
  if (is_digit(file[0]) && file.find_first_not_of("0123456789.") == std::string_view::npos) return false;
  std::string_view rest = text.substr(colon + 1);
  if (const auto line = take_integer(rest)) return rest.empty() || (rest[0] == ':' && rest.find(' ') == std::string_view::npos);
  const std::size_t second = rest.find(':');
  if (second == std::string_view::npos || second == 0 || rest.substr(0, second).find(' ') != std::string_view::npos) return false;
  rest.remove_prefix(second + 1);
  return take_integer(rest).has_value() && rest.empty();
}

bool peel_logger(std::string_view& text, Record& record, int default_year) {
  if (text.size() < 4) return false;
  const char c = text[0];
  // Megatron puts a blank before its clock: " [2026-12-01 13:15:13.209441] iteration".
  if (c == ' ' && text[1] == '[' && is_digit(text[2])) {
    std::string_view rest = text.substr(1);
    if (!clock_bracket(rest, record, default_year)) return false;
    text = rest;
    return true;
  }
  if (c == '[' && text.starts_with("[titan] ") && text.size() > 9 && is_digit(text[8])) {  // torchtitan
    text.remove_prefix(8);
    return true;
  }
  if (c == '[')
    return c10(text, record, default_year) || clock_bracket(text, record, default_year) || bar_bracket(text, record, default_year) ||
           nemo(text, record, default_year) || level_bracket(text, record, default_year);
  if (is_digit(c)) {
    if (const auto stamp = read_timestamp(text, default_year)) {
      record.time = stamp->time;
      text.remove_prefix(stamp->length);
      after_clock(text, record);
      return true;
    }
    return bare_clock(text, record);
  }
  if (c >= 'A' && c <= 'Z') {
    if (is_digit(text[1])) return glog(text, record, default_year);
    if (text[1] == ' ') {  // TensorFlow before 1.3: "W tensorflow/core/x.cc:273] text"
      std::string_view rest = text.substr(2);
      const std::size_t close = rest.substr(0, 200).find("] ");
      if (letter_level(c) == Level::unknown || close == std::string_view::npos || !is_source_place(rest.substr(0, close))) return false;
      record.level = letter_level(c);
      text = rest.substr(close + 2);
      return true;
    }
    if (level_first(text, record, default_year)) return true;
    if (const auto stamp = read_timestamp(text, default_year)) {
      record.time = stamp->time;
      text.remove_prefix(stamp->length);
      after_clock(text, record);
      return true;
    }
    return false;
  }
  if (c == 't') read_logfmt(text, record, default_year);
  return false;
}

}  // namespace triage::parsers
