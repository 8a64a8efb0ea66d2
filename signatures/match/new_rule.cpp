#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "parsers/base/text.hpp"
#include "parsers/base/visible.hpp"
#include "parsers/records/prefix.hpp"
#include "signatures/match/explain.hpp"

namespace triage::signatures {
namespace {

constexpr int kYear = 2026;               // completes clocks without a year; the answer does not hold it
constexpr std::size_t kMessageBytes = 400;
constexpr std::array<std::string_view, 10> kUnits = {" KiB", " MiB", " GiB", " TiB", " bytes", " kB", " MB", " GB", "KiB", "MiB"};

constexpr std::size_t kWholeDigits = 6;        // longer numbers are identifiers more often than counts, and no rank has more

constexpr std::size_t kHoles = 12;             // more captures than that nobody wants

bool is_hex(char c) { return parsers::is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// One capture of the skeleton.
struct Hole {
  std::string name, type, pattern;
};

// Of more than one byte, and would steer a terminal (right-to-left marks, C1 controls).
bool steers(std::string_view character) { return character.size() > 1 && parsers::visible(character) == "?"; }

// "\u202e". Such characters have two or three bytes.
std::string escaped_character(std::string_view character) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", parsers::code_point(character) & 0xffffU);
  return text;
}

// What must not be written raw (a tab, what steers a terminal) needs double quotes; other control characters cannot stand in YAML, and the
// pattern does not ask for them.
std::string quoted(std::string_view text) {
  const bool escapes = text.find('\t') != std::string_view::npos || parsers::visible(text) != text;
  std::string out(1, escapes ? '"' : '\'');
  for (; !text.empty(); text.remove_prefix(parsers::first_character(text).size())) {
    const std::string_view character = parsers::first_character(text);
    const char c = character.front();
    if (c == '\t') out += "\\t";
    if (is_control(c)) continue;
    if (escapes ? c == '"' || c == '\\' : c == '\'') out += escapes ? '\\' : c;
    if (steers(character)) out += escaped_character(character);
    else out += character;
  }
  return out + (escapes ? '"' : '\'');
}

class Skeleton {
 public:
  explicit Skeleton(std::string_view message) : in_(message) {
    while (at_ < in_.size()) step();
  }

  const std::string& pattern() const { return pattern_; }
  const std::vector<Hole>& holes() const { return holes_; }

 private:
  void step() {
    const char before = at_ == 0 ? ' ' : in_[at_ - 1];
    if (const std::string_view character = parsers::first_character(in_.substr(at_)); steers(character)) {
      pattern_ += ".{" + std::to_string(character.size()) + "}";
      at_ += character.size();
      return;
    }
    if (parsers::is_digit(in_[at_]) && !parsers::is_alnum(before) && before != '_') return number();
    if (in_[at_] == '/' && (parsers::is_space(before) || before == '\'' || before == '"' || before == '(')) return path();
    literal(in_[at_++]);
  }

  void literal(char c) {
    if (c == '\t') return void(pattern_ += "\\t");
    if (is_control(c)) return void(pattern_ += ".?");
    if (std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos) pattern_ += '\\';
    pattern_ += c;
  }

  void number() {
    std::size_t end = at_;
    int points = 0;
    for (; end < in_.size(); ++end) {
      if (parsers::is_digit(in_[end])) continue;
      if (in_[end] != '.' || end + 1 >= in_.size() || !parsers::is_digit(in_[end + 1])) break;
      ++points;
    }
    const std::string_view rest = in_.substr(end);
    if (end == at_ + 1 && in_[at_] == '0' && rest.size() > 1 && rest[0] == 'x' && is_hex(rest[1])) {
      for (++end; end < in_.size() && is_hex(in_[end]); ++end) {
      }
      at_ = end;
      return hole("address", "text", "0x[0-9a-fA-F]+");
    }
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](std::string_view u) { return rest.starts_with(u); });
    const std::string_view head = in_.substr(0, at_);
    if (points > 1) {
      hole("address", "text", "[\\d.]+");           // or a version
    } else if (unit != kUnits.end()) {
      hole("size", "bytes", "[\\d.]+" + std::string(*unit).substr(0, (*unit)[0] == ' ' ? 1 : 0) + "\\w+");
      end += unit->size();
      while (end < in_.size() && parsers::is_alnum(in_[end])) ++end;
    } else if (points > 0) {
      hole("number", "number", "[\\d.]+");
    } else if (end - at_ > kWholeDigits) {
      hole("id", "text", "\\d+");
    } else if (head.ends_with("rank ") || head.ends_with("Rank ") || head.ends_with("rank: ")) {
      hole("rank", "rank", "\\d+");
    } else if (head.ends_with("PID ") || head.ends_with("pid ") || head.ends_with("pid=") || head.ends_with("pid: ")) {
      hole("pid", "pid", "\\d+");
    } else if (head.ends_with("GPU ") || head.ends_with("cuda:") || head.ends_with("device ")) {
      hole("device", "device", "\\d+");
    } else {
      hole("count", "integer", "\\d+");
    }
    at_ = end;
  }

  void path() {
    while (at_ < in_.size() && !parsers::is_space(in_[at_]) && std::string_view("'\",:;()").find(in_[at_]) == std::string_view::npos) ++at_;
    hole("path", "text", "/[^\\s'\",:;()]*");
  }

  void hole(std::string name, std::string type, std::string form) {
    if (holes_.size() == kHoles) return void(pattern_ += form);
    const auto used = std::count_if(holes_.begin(), holes_.end(), [&](const Hole& h) { return h.name.starts_with(name); });
    if (used > 0) name += std::to_string(used + 1);
    pattern_ += "(?P<" + name + ">" + form + ")";
    holes_.push_back({std::move(name), std::move(type), std::move(form)});
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string pattern_;
  std::vector<Hole> holes_;
};

}  // namespace

std::string new_rule(std::string_view line) {
  parsers::Line whole;
  whole.text = line.substr(0, line.find('\n'));
  parsers::Peeler peeler(kYear);
  const std::string_view part = parsers::trim(peeler.peel(whole).message);
  const std::string message = parsers::repair_utf8(parsers::whole_head(part, kMessageBytes));
  const Skeleton skeleton(message);
  std::string captures;
  for (const Hole& hole : skeleton.holes()) captures += (captures.empty() ? "" : ", ") + hole.name + ": " + hole.type;
  std::string out = "- id: family.name\n  kind: user.exception\n  role: root\n";
  out += "  match: " + quoted(skeleton.pattern()) + "\n";
  if (!captures.empty()) out += "  captures: {" + captures + "}\n";
  out += "  summary: 'What happened, in one sentence.'\n  help: 'What to check or to change first.'\n  sources: ['project: file that prints it']\n";
  out += "  examples:\n    - " + quoted(parsers::repair_utf8(parsers::strip_ansi(whole.text))) + "\n  counter_examples:\n    - 'a line that looks alike but must not fire'\n";
  return out;
}

}  // namespace triage::signatures
