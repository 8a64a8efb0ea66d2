// Required literals of RE2 patterns: texts of which at least one stands in every match. They make the one pass over all bytes
// cheap; a pattern itself runs only on lines that hold one of its literals.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "signatures/match/signature.hpp"

namespace triage::signatures {

struct Literal {
  std::string text;       // bytes of one line; '\n' in front: at the start of a line
  bool caseless = false;  // ASCII letters of either case stand for each other

  friend auto operator<=>(const Literal&, const Literal&) = default;
};

inline constexpr std::size_t kUsableLiteral = 4;  // bytes; shorter ones stand in too many lines

// Sets of literals of one valid RE2 pattern (Latin-1): each match holds at least one literal of each set. Literals are cut at bytes
// that loggers escape or colour (quotes, backslash, <, >, &, control characters), since the pass sees raw bytes. Empty: none known.
std::vector<std::vector<Literal>> required_literals(std::string_view pattern);

// The set with the longest and rarest literals whose shortest one has at least `least` bytes; nothing if there is none.
std::optional<std::vector<Literal>> best_literals(std::string_view pattern, std::size_t least);

// What the rule is looked up by: its own `literals`, else the best ones of each pattern. Nothing: a pattern has none.
// With `no_literal` shorter ones (2 bytes and more) are taken too.
std::optional<std::vector<Literal>> rule_literals(const Signature& rule);

bool stands_in(const Literal& literal, std::string_view text);

}  // namespace triage::signatures
