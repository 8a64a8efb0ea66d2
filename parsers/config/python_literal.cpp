#include "parsers/config/python_literal.hpp"

#include <algorithm>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kDepth = 64;

bool opens(char c) { return c == '{' || c == '[' || c == '('; }
bool closes(char c) { return c == '}' || c == ']' || c == ')'; }
bool name_char(char c) { return is_alnum(c) || c == '_' || c == '.'; }

// White space runs (with line ends) become one space.
std::string one_line(std::string_view text) {
  std::string out;
  bool blank = false;
  for (const char c : text.substr(0, std::min(text.size(), kFlatValueBytes))) {
    if (is_space(c)) {
      blank = !out.empty();
      continue;
    }
    if (blank && out.back() != '[' && out.back() != '(' && c != ']') out += ' ';
    blank = false;
    out += c;
  }
  return out;
}

struct Frame {
  enum class Kind { map, list, call } kind;
  std::string path;       // of this value, "" for the outermost
  std::size_t start = 0;  // offset of its bracket
  std::size_t index = 0;  // of the next element
  bool nested = false;    // holds a map or a call: not printed as one list
  bool in_list = false;   // an element of a list: the outermost list prints it
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  FlatLiteral run() {
    skip_blank();
    if (at_ < text_.size()) read_value(std::string(), false);
    while (!frames_.empty() && at_ < text_.size() && !stopped_) step();
    out_.complete = frames_.empty() && !out_.fault;
    if (!frames_.empty() && !out_.fault)
      fail(text_.size(), "the text ends before its brackets are closed");
    while (!frames_.empty()) {  // a list that was cut keeps its elements
      if (frames_.back().kind == Frame::Kind::list) close_list(frames_.back(), text_.size());
      frames_.pop_back();
    }
    out_.end = at_;
    return std::move(out_);
  }

 private:
  void fail(std::size_t offset, std::string reason) {
    if (out_.fault) return;
    out_.fault = offset;
    out_.reason = std::move(reason);
  }

  void skip_blank() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  void emit(const std::string& path, std::string value, std::size_t offset) {
    if (out_.settings.size() >= limits::kSettings) {
      stopped_ = true;
      fail(offset, "more settings than the limit");
      return;
    }
    if (value.size() > kFlatValueBytes) value.resize(kFlatValueBytes);
    out_.settings.push_back({path, std::move(value), 0, offset});
  }

  void close_list(const Frame& frame, std::size_t end) {
    if (frame.nested || frame.in_list) return;
    std::string_view slice = text_.substr(frame.start, end - frame.start);
    emit(frame.path, one_line(slice), frame.start);
  }

  void push(Frame::Kind kind, std::string path) {
    if (frames_.size() >= kDepth) {
      fail(at_, "nested deeper than " + std::to_string(kDepth) + " levels");
      stopped_ = true;
      return;
    }
    const bool in_list = !frames_.empty() && frames_.back().kind == Frame::Kind::list;
    if (in_list && kind != Frame::Kind::list)
      for (Frame& frame : frames_) frame.nested = true;
    if (kind == Frame::Kind::call && path.empty() && !frames_.empty()) path = frames_.back().path;
    frames_.push_back({kind, std::move(path), at_, 0, false, in_list && kind == Frame::Kind::list});
    ++at_;
  }

  // One element, or the closing bracket, of the innermost value.
  void step() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == ',')) ++at_;
    if (at_ >= text_.size()) return;
    Frame& frame = frames_.back();
    const char c = text_[at_];
    if (closes(c)) {
      const char want = frame.kind == Frame::Kind::map    ? '}'
                        : frame.kind == Frame::Kind::call ? ')'
                        : text_[frame.start] == '['       ? ']'
                                                          : ')';
      if (c != want) fail(at_, "a bracket that closes nothing");
      ++at_;
      if (frame.kind == Frame::Kind::list) close_list(frame, at_);
      frames_.pop_back();
      return;
    }
    if (frame.kind == Frame::Kind::list) {
      const std::string path = frame.path + "[" + std::to_string(frame.index++) + "]";
      read_value(path, true);
      return;
    }
    std::string key;
    const std::size_t before = at_;
    if (read_key(frame.kind, key)) {
      skip_blank();
      if (at_ < text_.size() && !closes(text_[at_]) && text_[at_] != ',')
        read_value(frame.path.empty() ? key : frame.path + "." + key, false);
      return;
    }
    at_ = before;
    if (frame.kind ==
        Frame::Kind::call) {  // a positional argument: PosixPath('/x') gives the path its text
      const std::string path = frame.path;
      const std::size_t settings = out_.settings.size();
      read_value(path, frame.index++ > 0);
      if (at_ == before) ++at_;
      if (out_.settings.size() > settings && path.empty()) out_.settings.resize(settings);
      return;
    }
    fail(at_, "a key and a colon were expected");
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && !closes(text_[at_]))
      ++at_;
  }

  // "name": or 'name': or name= ; leaves at_ behind the separator.
  bool read_key(Frame::Kind kind, std::string& key) {
    const char separator = kind == Frame::Kind::map ? ':' : '=';
    const char c = text_[at_];
    if (c == '"' || c == '\'') {
      if (kind == Frame::Kind::call) return false;
      key = quoted();
    } else {
      const std::size_t start = at_;
      while (at_ < text_.size() && (name_char(text_[at_]) || text_[at_] == '-' ||
                                    text_[at_] == '/' || text_[at_] == '<' || text_[at_] == '>'))
        ++at_;
      if (at_ == start || at_ - start > 256) return false;
      key.assign(text_.substr(start, at_ - start));
    }
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    if (at_ >= text_.size() || text_[at_] != separator) return false;
    ++at_;
    if (key.size() > 256) key.resize(256);
    return true;
  }

  // A quoted text at at_, with its escapes undone as far as they matter (\" \' \\ \n).
  std::string quoted() {
    const char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') {  // not closed on its line: it was no quote, or the line was cut
        fail(at_, "a quote that is not closed");
        return out;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        const char escaped = text_[at_];
        out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
      } else if (out.size() < kFlatValueBytes) {
        out += text_[at_];
      }
      ++at_;
    }
    if (at_ < text_.size())
      ++at_;
    else
      fail(at_, "a quote that is not closed");
    return out;
  }

  void read_value(std::string path, bool silent) {
    const char c = text_[at_];
    if (opens(c)) {
      push(c == '{' ? Frame::Kind::map : Frame::Kind::list, std::move(path));
      return;
    }
    const std::size_t start = at_;
    if (c == '"' || c == '\'') {
      std::string value = quoted();
      for (std::size_t next = at_;;) {  // texts side by side are one text
        while (next < text_.size() && is_space(text_[next])) ++next;
        if (next >= text_.size() || (text_[next] != '"' && text_[next] != '\'') || next == at_)
          break;
        at_ = next;
        value += quoted();
        next = at_;
      }
      if (!silent) emit(path, std::move(value), start);
      return;
    }
    read_bare(std::move(path), silent);
  }

  // A word up to a comma, closing bracket or line end; a word with an opening parenthesis is a
  // call.
  void read_bare(std::string path, bool silent) {
    const std::size_t start = at_;
    int angle = 0;
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char c = text_[at_];
      if (c == '<') ++angle;
      if (c == '>' && angle > 0) --angle;
      if (angle == 0) {
        if (c == ',' || closes(c)) break;
        if (c == '(' && at_ > start &&
            std::all_of(text_.begin() + static_cast<std::ptrdiff_t>(start),
                        text_.begin() + static_cast<std::ptrdiff_t>(at_), name_char)) {
          push(Frame::Kind::call, std::move(path));
          return;
        }
        if (opens(c)) break;
      }
      ++at_;
    }
    if (at_ == start) {
      fail(at_, "a value was expected");
      ++at_;
      return;
    }
    if (!silent) emit(path, std::string(trim(text_.substr(start, at_ - start))), start);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool stopped_ = false;
  std::vector<Frame> frames_;
  FlatLiteral out_;
};

// The depth that a line adds; quotes are honoured unless one stays open at the line's end.
int line_depth(std::string_view line, bool& opened, bool honour_quotes) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
      continue;
    }
    if (honour_quotes && (c == '"' || c == '\''))
      quote = c;
    else if (opens(c))
      ++depth, opened = true;
    else if (closes(c))
      --depth;
  }
  if (quote) return line_depth(line, opened, false);
  return depth;
}

}  // namespace

FlatLiteral read_literal(std::string_view text) {
  return Reader(text.substr(0, std::min(text.size(), limits::kConfigBytes))).run();
}

void BracketCounter::add(std::string_view line) { depth_ += line_depth(line, opened_, true); }

}  // namespace triage::parsers
