#include "daemon/http/json_reader.hpp"

#include "parsers/base/text.hpp"
#include "parsers/base/utf8.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;

JsonReader::JsonReader(std::string_view bytes, bool many, std::size_t depth) : bytes_(bytes), many_(many), depth_(depth) {
  if (bytes_.starts_with("\xef\xbb\xbf")) at_ = 3;
}

void JsonReader::blanks() {
  while (at_ < bytes_.size() && (bytes_[at_] == ' ' || bytes_[at_] == '\n' || bytes_[at_] == '\r' || bytes_[at_] == '\t')) ++at_;
}

JsonReader::Token JsonReader::fail(std::string why) {
  if (last_ != Token::fault) why_ = std::move(why);
  return last_ = Token::fault;
}

Error JsonReader::error() const {
  return Error(ErrorCode::syntax, "the JSON is wrong at byte " + std::to_string(at_token_)).because(why_).at(parsers::Place{"body", {}, {}, at_token_, {}});
}

JsonReader::Token JsonReader::after_value(Token kind) {
  state_ = open_.empty() ? State::document : State::comma_or_end;
  return last_ = kind;
}

JsonReader::Token JsonReader::close(char bracket, Token kind) {
  if (open_.empty() || open_.back() != bracket) return fail("a closing bracket has no partner");
  open_.pop_back();
  ++at_;
  return after_value(kind);
}

JsonReader::Token JsonReader::next() {
  if (last_ == Token::fault) return last_;
  blanks();
  at_token_ = at_;
  if (at_ >= bytes_.size()) {
    if (state_ != State::document) return fail("it ends too early");
    if (!had_document_ && !many_) return fail("it is empty");
    return last_ = Token::end;
  }
  char c = bytes_[at_];
  switch (state_) {
    case State::document:
      if (had_document_ && !many_) return fail("text follows the end of the document");
      if (had_document_ && c == ',') {   // some writers join documents by commas
        ++at_;
        blanks();
        at_token_ = at_;
        if (at_ >= bytes_.size()) return last_ = Token::end;
      }
      had_document_ = true;
      return value();
    case State::value_or_end:
      if (c == ']') return close('[', Token::end_array);
      return value();
    case State::value: return value();
    case State::key_or_end:
      if (c == '}') return close('{', Token::end_object);
      return string_token(Token::key);
    case State::key: return string_token(Token::key);
    case State::comma_or_end:
      if (c == '}') return close('{', Token::end_object);
      if (c == ']') return close('[', Token::end_array);
      if (c != ',') return fail("a comma or a closing bracket was expected");
      ++at_;
      state_ = open_.back() == '{' ? State::key : State::value;
      return next();   // once: neither state leads here again
  }
  return fail("the reader is in no state");
}

JsonReader::Token JsonReader::value() {
  const char c = bytes_[at_];
  switch (c) {
    case '{':
    case '[':
      if (open_.size() >= depth_) return fail("it is nested deeper than " + std::to_string(depth_));
      open_.push_back(c);
      ++at_;
      state_ = c == '{' ? State::key_or_end : State::value_or_end;
      return last_ = c == '{' ? Token::begin_object : Token::begin_array;
    case '"': return string_token(Token::text);
    case 't': return word("true", Token::yes);
    case 'f': return word("false", Token::no);
    case 'n': return word("null", Token::null);
    default: return number_token();
  }
}

JsonReader::Token JsonReader::word(std::string_view word, Token kind) {
  if (bytes_.substr(at_, word.size()) != word) return fail("a value was expected");
  at_ += word.size();
  text_ = word;
  return after_value(kind);
}

JsonReader::Token JsonReader::number_token() {
  const std::size_t begin = at_;
  const auto digits = [this] {
    const std::size_t from = at_;
    while (at_ < bytes_.size() && parsers::is_digit(bytes_[at_])) ++at_;
    return at_ - from;
  };
  if (bytes_[at_] == '-') ++at_;
  const std::size_t whole = at_;
  const std::size_t count = digits();
  bool good = count > 0 && !(count > 1 && bytes_[whole] == '0');
  if (good && at_ < bytes_.size() && bytes_[at_] == '.') {
    ++at_;
    good = digits() > 0;
  }
  if (good && at_ < bytes_.size() && (bytes_[at_] == 'e' || bytes_[at_] == 'E')) {
    ++at_;
    if (at_ < bytes_.size() && (bytes_[at_] == '+' || bytes_[at_] == '-')) ++at_;
    good = digits() > 0;
  }
  if (!good) return fail(count == 0 ? "a value was expected" : "a number is malformed");
  text_ = bytes_.substr(begin, at_ - begin);
  return after_value(Token::number);
}

JsonReader::Token JsonReader::string_token(Token kind) {
  if (bytes_[at_] != '"') return fail("a text in double quotes was expected");
  ++at_;
  if (!read_string()) return Token::fault;
  if (kind == Token::text) return after_value(kind);
  blanks();
  if (at_ >= bytes_.size() || bytes_[at_] != ':') {
    at_token_ = at_;
    return fail("a colon was expected after a key");
  }
  ++at_;
  state_ = State::value;
  return last_ = kind;
}

bool JsonReader::read_string() {
  const std::size_t begin = at_;
  std::size_t from = at_;
  bool decoded = false;
  for (;;) {
    while (at_ < bytes_.size() && bytes_[at_] != '"' && bytes_[at_] != '\\' && static_cast<unsigned char>(bytes_[at_]) >= 0x20) ++at_;
    if (at_ >= bytes_.size()) {
      fail("a text has no end");
      return false;
    }
    if (bytes_[at_] == '"') break;
    if (bytes_[at_] != '\\') {
      at_token_ = at_;
      fail("a control character stands in a text without an escape");
      return false;
    }
    if (!decoded) {
      decoded_.clear();
      decoded = true;
    }
    decoded_.append(bytes_.substr(from, at_ - from));
    ++at_;
    if (!read_escape()) {
      at_token_ = at_;
      fail("an escape in a text is malformed");
      return false;
    }
    from = at_;
  }
  if (decoded) {
    decoded_.append(bytes_.substr(from, at_ - from));
    text_ = decoded_;
  } else {
    text_ = bytes_.substr(begin, at_ - begin);
  }
  ++at_;
  return true;
}

std::optional<unsigned> JsonReader::hex4() {
  if (bytes_.size() - at_ < 4) return std::nullopt;
  unsigned value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const char c = bytes_[at_ + i];
    unsigned digit = 0;
    if (parsers::is_digit(c))
      digit = static_cast<unsigned>(c - '0');
    else if (parsers::to_lower(c) >= 'a' && parsers::to_lower(c) <= 'f')
      digit = static_cast<unsigned>(parsers::to_lower(c) - 'a') + 10;
    else
      return std::nullopt;
    value = value * 16 + digit;
  }
  at_ += 4;
  return value;
}

bool JsonReader::read_escape() {
  if (at_ >= bytes_.size()) return false;
  const char c = bytes_[at_++];
  switch (c) {
    case '"':
    case '\\':
    case '/': decoded_ += c; return true;
    case 'b': decoded_ += '\b'; return true;
    case 'f': decoded_ += '\f'; return true;
    case 'n': decoded_ += '\n'; return true;
    case 'r': decoded_ += '\r'; return true;
    case 't': decoded_ += '\t'; return true;
    case 'u': break;
    default: return false;
  }
  auto code = hex4();
  if (!code) return false;
  if (*code >= 0xd800 && *code < 0xdc00 && bytes_.substr(at_, 2) == "\\u") {
    const std::size_t back = at_;
    at_ += 2;
    const auto low = hex4();
    if (low && *low >= 0xdc00 && *low < 0xe000)
      code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
    else
      at_ = back;   // its own escape
  }
  if (*code >= 0xd800 && *code < 0xe000) code = 0xfffd;   // half a pair
  parsers::append_utf8(*code, decoded_);
  return true;
}

bool JsonReader::skip() {
  if (last_ == Token::fault) return false;
  if (last_ == Token::key) next();
  if (last_ != Token::begin_object && last_ != Token::begin_array) return last_ != Token::fault;
  const std::size_t base = open_.size();
  while (open_.size() >= base)
    if (next() == Token::fault) return false;
  return true;
}

}  // namespace triage::daemon::api
