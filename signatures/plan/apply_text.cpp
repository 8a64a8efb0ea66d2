#include "signatures/plan/apply_text.hpp"

#include <utility>

namespace triage::signatures {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

Result<TextTemplate> TextTemplate::parse(std::string_view text, const Place& place) {
  TextTemplate made;
  std::string plain;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool opens =
        text[at] == '{' && at + 1 < text.size() && text[at + 1] >= 'a' && text[at + 1] <= 'z';
    if (!opens) {
      plain += text[at++];
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (end == std::string_view::npos)
      return Error(ErrorCode::syntax, "'" + std::string(text) + "' opens a brace and does not close it")
          .at(place);
    TRIAGE_TRY(Expression expression, Expression::parse(text.substr(at + 1, end - at - 1), place));
    if (!plain.empty()) made.pieces_.push_back({std::exchange(plain, {}), std::nullopt});
    made.pieces_.push_back({{}, std::move(expression)});
    at = end + 1;
  }
  if (!plain.empty()) made.pieces_.push_back({std::move(plain), std::nullopt});
  return made;
}

std::optional<std::string> TextTemplate::render(const Scope& scope) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    if (!piece.expression) {
      out += piece.text;
      continue;
    }
    const Datum value = piece.expression->value(scope);
    if (value.index() == 0) return std::nullopt;
    out += datum_text(value);
  }
  return out;
}

bool TextTemplate::always_known() const {
  for (const Piece& piece : pieces_)
    if (piece.expression && !piece.expression->always_known()) return false;
  return true;
}

Result<TextForms> TextForms::make(std::vector<TextTemplate> forms, const Place& place) {
  if (forms.empty()) return Error(ErrorCode::syntax, "a text is missing").at(place);
  if (!forms.back().always_known())
    return Error(ErrorCode::syntax, "the last form of a text uses a value that a log may not state")
        .at(place)
        .help("add a form without braces, or give the value with default(key, value)");
  TextForms made;
  made.forms_ = std::move(forms);
  return made;
}

std::string TextForms::render(const Scope& scope) const {
  for (const TextTemplate& form : forms_)
    if (auto text = form.render(scope)) return std::move(*text);
  return {};
}

}  // namespace triage::signatures
