// Texts of the catalogue with {expression} in them: "--micro-batch-size {floor(micro_batch / 2)}". A brace followed by a
// lower-case letter begins an expression; any other brace (JSON, Python) is text. A text may have several forms: the first whose
// expressions are all known is used, so that exact values stand where the log states them and words where it does not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "signatures/plan/condition.hpp"

namespace triage::signatures {

class TextTemplate {
 public:
  static parsers::Result<TextTemplate> parse(std::string_view text, const parsers::Place& place);

  // Empty: one of the expressions is unknown in this scope.
  std::optional<std::string> render(const Scope& scope) const;
  bool always_known() const;

 private:
  struct Piece {
    std::string text;
    std::optional<Expression> expression;
  };
  std::vector<Piece> pieces_;
};

class TextForms {
 public:
  // The last form has to be known in every scope. Errors: syntax.
  static parsers::Result<TextForms> make(std::vector<TextTemplate> forms,
                                         const parsers::Place& place);

  std::string render(const Scope& scope) const;
  bool empty() const { return forms_.empty(); }

 private:
  std::vector<TextTemplate> forms_;
};

}  // namespace triage::signatures
