// Expression: a small three-valued language over the settings of a run (keys.def) and the facts of one diagnosis. The fix
// catalogue states preconditions, exclusions and computed values in it:
//   recompute != full        experts > 0 and tensor_parallel > 1        default(tensor_parallel, 1) * 2 <= gpus_per_node
//   attention in [eager, unfused]      known(hidden)      has(recompute_modules, mlp)      floor(micro_batch / 2)
//   with(recompute_modules, mlp, moe): the list and these items, an unset list being empty; spaced(LIST) and quoted(LIST) write one
//   as a command line ("core_attn mlp") and as Python or YAML ("core_attn", "mlp")
// Whatever touches an unset key or an absent fact is unknown, unless the rest decides it (false and unknown is false).
// Words: right of == and !=, and in lists, a bare word is text; other text stands in '...'. A name that is neither a key nor
// a fact is a fault with its place. Nothing is executed; the length and the depth of an expression are limited.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parsers/base/place.hpp"
#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"

namespace triage::signatures {

// A value of the language. monostate: unknown.
using Datum =
    std::variant<std::monostate, bool, double, std::string, std::vector<std::string>>;

// What a diagnosis states beside the configuration, by name (fact_names()); an absent one is unknown.
using Facts = std::map<std::string, Datum, std::less<>>;

struct Scope {
  const parsers::RunConfig& config;
  const Facts& facts;
};

enum class Truth : std::uint8_t { no, yes, unknown };

class Expression {
 public:
  enum class Type : std::uint8_t { boolean, number, text, list };

  // Errors: syntax (place of the whole expression), limit.
  static parsers::Result<Expression> parse(std::string_view text, const parsers::Place& place);
  // As parse, and the expression must be true or false.
  static parsers::Result<Expression> condition(std::string_view text, const parsers::Place& place);

  Datum value(const Scope& scope) const;
  Truth truth(const Scope& scope) const;
  Type type() const { return type_; }
  const std::string& text() const { return text_; }
  // It has a value in every scope: each name stands in known() or default().
  bool always_known() const;
  // Names (keys and facts) that it needs and the scope does not have.
  std::vector<std::string> missing(const Scope& scope) const;

 private:
  friend class ExpressionParser;
  enum class Op : std::uint8_t {
    number, word, words, key, fact, known, fallback, equal, unequal, less, less_equal, greater,
    greater_equal, add, subtract, multiply, divide, modulo, logical_and, logical_or, logical_not,
    in, has, with, spaced, quoted, floor, min, max
  };
  struct Step {
    Op op;
    double number = 0;
    std::string text;                 // word, or name of a fact
    std::vector<std::string> words;   // of a list
    parsers::Key key{};
    bool guarded = false;             // stands in default(): may be unknown
  };

  std::string text_;
  Type type_ = Type::boolean;
  std::vector<Step> steps_;           // postfix
};

// Names that expressions may use beside the keys; "capture.NAME" is always allowed (text).
bool is_fact_name(std::string_view name);

// As the answer prints it: 4, 0.5, true, text, [a, b]. Unknown: "?".
std::string datum_text(const Datum& value);

}  // namespace triage::signatures
