#include "daemon/pipeline/source_name.hpp"

#include <cctype>
#include <optional>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {
namespace {

using parsers::is_alpha;
using parsers::is_digit;

// A number in the name together with the word right before it ("rank", "node", "" after a slash).
struct Numbered {
  std::size_t begin = 0, end = 0;  // of the digits
  std::string word;                // lower case letters before them, separators skipped
  bool whole_component = false;    // a folder named by a number alone: torchrun's attempt_0/3/stderr.log
};

std::vector<Numbered> numbers_of(std::string_view name) {
  std::vector<Numbered> out;
  for (std::size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) { ++i; continue; }
    Numbered number;
    number.begin = i;
    while (i < name.size() && is_digit(name[i])) ++i;
    number.end = i;
    const bool starts = number.begin == 0 || name[number.begin - 1] == '/';
    const bool ends = i < name.size() && name[i] == '/';
    number.whole_component = starts && ends;
    std::size_t w = number.begin;
    while (w > 0 && (name[w - 1] == '_' || name[w - 1] == '-' || name[w - 1] == '.' || name[w - 1] == '=')) --w;
    const std::size_t word_end = w;
    while (w > 0 && is_alpha(name[w - 1])) --w;
    for (std::size_t c = w; c < word_end; ++c) number.word += static_cast<char>(std::tolower(static_cast<unsigned char>(name[c])));
    out.push_back(std::move(number));
  }
  return out;
}

std::optional<int> value_of(std::string_view digits) {
  if (digits.size() > 7) return std::nullopt;
  int value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  if (value >= parsers::limits::kRanks) return std::nullopt;
  return value;
}

bool ends_with(const std::string& word, std::string_view tail) {
  return word.size() >= tail.size() && word.compare(word.size() - tail.size(), tail.size(), tail) == 0;
}
bool is_rank_word(const std::string& w) { return ends_with(w, "rank") && !ends_with(w, "localrank"); }
bool is_node_word(const std::string& w) {
  return w == "node" || w == "host" || w == "worker" || w == "pod" || w == "gpunode" || w == "replica" || w == "master" || w == "compute";
}

}  // namespace

signatures::SourceInfo source_info(std::string_view name) {
  signatures::SourceInfo info;
  info.name = std::string(name);
  for (const Numbered& number : numbers_of(name)) {
    const auto value = value_of(name.substr(number.begin, number.end - number.begin));
    if (!value) continue;
    if (ends_with(number.word, "localrank")) info.local_rank = value;
    else if (is_rank_word(number.word)) info.rank = value;
    else if (number.word == "attempt") info.attempt = value;
    else if (is_node_word(number.word)) info.node = number.word + std::to_string(*value);
    else if (number.whole_component && info.attempt) info.local_rank = value;
  }
  return info;
}

std::string job_key(std::string_view name) {
  std::string key;
  std::size_t from = 0;
  bool found = false;
  bool attempt_seen = false;
  for (const Numbered& number : numbers_of(name)) {
    const bool rank_like = is_rank_word(number.word) || ends_with(number.word, "localrank") || is_node_word(number.word) ||
                           number.word == "task" || number.word == "proc" || (number.whole_component && attempt_seen);
    attempt_seen = attempt_seen || number.word == "attempt";
    if (!rank_like) continue;
    key.append(name.substr(from, number.begin - from));
    key += '*';
    from = number.end;
    found = true;
  }
  if (!found) return {};
  key.append(name.substr(from));
  for (const std::string_view stream : {"stdout", "stderr"})  // torchrun writes both of one rank
    if (const auto at = key.rfind(stream); at != std::string::npos) key.replace(at, stream.size(), "std*");
  return key;
}

}  // namespace triage::daemon
