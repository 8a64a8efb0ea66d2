// JsonReader: JSON as a run of tokens, without a tree, without recursion, with the byte of every fault. For bodies of many megabytes that
// outsiders push. Strict, but for two things that shippers do: a byte order mark at the start, and bytes in texts that are no UTF-8 (they pass).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::daemon::api {

class JsonReader {
 public:
  enum class Token { begin_object, end_object, begin_array, end_array, key, text, number, yes, no, null, end, fault };

  // many: several documents may follow one another (newline JSON, or nothing between them). The view is not copied.
  explicit JsonReader(std::string_view bytes, bool many = false, std::size_t depth = 64);

  Token next();
  // Of the last key or text: its characters, valid until the next call. Of a number: as written.
  std::string_view text() const { return text_; }
  // First byte of the last token.
  std::size_t offset() const { return at_token_; }
  // First byte after the last token.
  std::size_t end_offset() const { return at_; }
  std::size_t depth() const { return open_.size(); }

  // Reads on to the end of the value whose first token was the last one. False: fault.
  bool skip();

  // After Token::fault: what, with the offset as place.
  parsers::Error error() const;
  // Makes the reader faulty: what was read is well formed but not what is wanted. Returns Token::fault for the caller to pass on.
  Token fail(std::string why);

 private:
  Token value();
  Token string_token(Token kind);
  bool read_string();
  bool read_escape();
  std::optional<unsigned> hex4();
  Token number_token();
  Token word(std::string_view word, Token kind);
  Token close(char bracket, Token kind);
  void blanks();
  Token after_value(Token kind);

  enum class State { document, value_or_end, value, key_or_end, key, comma_or_end };
  const std::string_view bytes_;
  const bool many_;
  const std::size_t depth_;
  std::vector<char> open_;                 // '{' or '['
  State state_ = State::document;
  bool had_document_ = false;
  std::size_t at_ = 0, at_token_ = 0;
  Token last_ = Token::end;
  std::string_view text_;
  std::string decoded_;
  std::string why_;
};

}  // namespace triage::daemon::api
