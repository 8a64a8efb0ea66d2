// Scan: a cursor over one message, used by the parsers of this folder only. Looks into the caller's text, never copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "parsers/base/text.hpp"
#include "parsers/base/units.hpp"

namespace triage::parsers {

// A printed size. The printers round to the digits they show, so the true value lies within bytes +- error.
struct Quantity {
  Bytes bytes;
  Bytes error;               // half of the last printed digit
  bool meaningless = false;  // 2^62 bytes and more: a counter that was never set, printed as a size
};

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  bool done() const { return at_ >= text_.size(); }
  std::size_t position() const { return at_; }
  void move_to(std::size_t position) { at_ = position < text_.size() ? position : text_.size(); }
  std::string_view rest() const { return text_.substr(at_); }
  char peek() const { return done() ? '\0' : text_[at_]; }

  void blanks();                          // skips blanks and tabs
  bool word(std::string_view literal);    // the literal stands here: moves behind it
  bool after(std::string_view literal);   // moves behind its next occurrence; false: nothing moves
  std::string_view until(std::string_view any_of);  // text up to one of the characters, or all; stops on it

  // Each skips blanks first and moves behind what it read; empty: nothing of that form here, nothing moves.
  std::optional<std::int64_t> integer();  // sign, decimal digits
  std::optional<double> number();         // decimal, exponent, nan, inf
  // "79.15 GiB", "1024MB", "8,589,934,592 bytes", "41.74G". Without unit only if bare is set (bytes then).
  std::optional<Quantity> quantity(bool bare = false);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// An int from an int64 that fits, else nothing.
std::optional<int> narrow(std::optional<std::int64_t> value);
// A rank-like number: 0 .. limits::kRanks, else nothing.
std::optional<int> rank_number(std::optional<std::int64_t> value);

constexpr bool is_word(char c) { return is_alnum(c) || c == '_'; }

}  // namespace triage::parsers
