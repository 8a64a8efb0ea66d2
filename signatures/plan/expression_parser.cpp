// The parser of expressions and the names that they may use.
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "signatures/plan/condition.hpp"

namespace triage::signatures {

using parsers::Error;
using parsers::ErrorCode;
using parsers::KeyType;
using parsers::Place;
using parsers::Result;
using Type = Expression::Type;

namespace {

constexpr std::size_t kTextBytes = 1000;  // of one expression
constexpr int kDepth = 24;                // of brackets and operators inside one another

struct FactName {
  std::string_view name;
  Type type;
};
// Filled by facts_of (rank.cpp). Sizes come twice: as text ("2.00 GiB") and as a number of GiB.
constexpr std::array kFacts = {
    FactName{"kind", Type::text},          FactName{"phase", Type::text},
    FactName{"frameworks", Type::list},
    FactName{"card", Type::text},          FactName{"mock_data", Type::number},
    FactName{"backend", Type::text},       FactName{"node", Type::text},
    FactName{"rank", Type::number},        FactName{"local_rank", Type::number},
    FactName{"device", Type::number},      FactName{"step", Type::number},
    FactName{"tried_in_loss", Type::text}, FactName{"tried_in_optimizer", Type::text},
    FactName{"tried", Type::text},         FactName{"tried_gib", Type::number},
    FactName{"free", Type::text},          FactName{"free_gib", Type::number},
    FactName{"capacity", Type::text},      FactName{"capacity_gib", Type::number},
    FactName{"in_use", Type::text},        FactName{"in_use_gib", Type::number},
    FactName{"allocated", Type::text},     FactName{"allocated_gib", Type::number},
    FactName{"unallocated", Type::text},   FactName{"unallocated_gib", Type::number},
    FactName{"outside", Type::text},       FactName{"outside_gib", Type::number},
    FactName{"limit", Type::text},         FactName{"limit_gib", Type::number},
    FactName{"pools", Type::text},         FactName{"pools_gib", Type::number},
    FactName{"others", Type::text},        FactName{"others_gib", Type::number},
    FactName{"other_processes", Type::text}, FactName{"other_pids", Type::text}, FactName{"other_count", Type::number},
    FactName{"operation", Type::text},
    FactName{"sequence", Type::number},    FactName{"culprit_ranks", Type::text},
    FactName{"silent_ranks", Type::text},  FactName{"waiting_ranks", Type::text},
    FactName{"flight_recorder_dump", Type::number}, FactName{"cuda_core_dump", Type::number},
};

std::optional<Type> fact_type(std::string_view name) {
  for (const FactName& fact : kFacts)
    if (fact.name == name) return fact.type;
  if (name.starts_with("capture.") && name.size() > 8) return Type::text;
  return std::nullopt;
}

Type type_of(KeyType type) {
  switch (type) {
    case KeyType::integer:
    case KeyType::number: return Type::number;
    case KeyType::boolean: return Type::boolean;
    case KeyType::text: return Type::text;
    case KeyType::list: return Type::list;
  }
  return Type::text;
}

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

}  // namespace

bool is_fact_name(std::string_view name) { return fact_type(name).has_value(); }

// Recursive descent, depth limited; the first fault ends it (steps_ is then not used).
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const Place& place) : text_(text), place_(place) {}

  Result<Expression> run() {
    if (text_.size() > kTextBytes)
      return Error(ErrorCode::limit, "an expression is longer than 1000 bytes").at(place_);
    const Type type = any();
    skip();
    if (!fault_ && at_ < text_.size()) fail("there is more after its end");
    if (fault_) return std::move(*fault_);
    out_.text_ = std::string(text_);
    out_.type_ = type;
    return std::move(out_);
  }

 private:
  using Op = Expression::Op;

  Type fail(std::string why) {
    if (!fault_)
      fault_ = Error(ErrorCode::syntax, "the expression '" + std::string(text_) + "' cannot be read")
                   .because(std::move(why))
                   .at(place_);
    at_ = text_.size();
    return Type::boolean;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    if (is_word_start(token.front()) && at_ + token.size() < text_.size() &&
        is_word(text_[at_ + token.size()]))
      return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("'" + std::string(token) + "' is missing");
  }
  std::string_view word() {
    skip();
    const std::size_t start = at_;
    if (at_ < text_.size() && is_word_start(text_[at_]))
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  void step(Op op) {
    Expression::Step made;
    made.op = op;
    out_.steps_.push_back(std::move(made));
  }
  void want(Type got, Type wanted, std::string_view where) {
    static constexpr std::array<std::string_view, 4> kNames = {"true or false", "a number", "text",
                                                               "a list"};
    if (got != wanted)
      fail(std::string(where) + " needs " +
           std::string(kNames[static_cast<std::size_t>(wanted)]));
  }

  Type any() {
    if (++depth_ > kDepth) return fail("it is nested too deeply");
    Type type = conjunction();
    while (take("or")) {
      want(type, Type::boolean, "'or'");
      want(conjunction(), Type::boolean, "'or'");
      step(Op::logical_or);
    }
    --depth_;
    return type;
  }
  Type conjunction() {
    Type type = negation();
    while (take("and")) {
      want(type, Type::boolean, "'and'");
      want(negation(), Type::boolean, "'and'");
      step(Op::logical_and);
    }
    return type;
  }
  Type negation() {
    int count = 0;
    while (take("not")) ++count;
    const Type type = comparison();
    if (count) want(type, Type::boolean, "'not'");
    if (count % 2) step(Op::logical_not);
    return type;
  }
  // A literal on the right of a comparison with text; false: there is none.
  bool text_literal() {
    skip();
    Expression::Step made;
    made.op = Op::word;
    if (at_ < text_.size() && text_[at_] == '\'') {
      made.text = quoted();
    } else {
      const std::string_view name = word();
      if (name.empty()) return false;
      made.text = std::string(name);
    }
    out_.steps_.push_back(std::move(made));
    return true;
  }
  std::string quoted() {
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) {
      fail("a quote is not closed");
      return {};
    }
    std::string body(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return body;
  }
  Type comparison() {
    const Type left = sum();
    if (take("in")) {
      list(left);
      return Type::boolean;
    }
    static constexpr std::array<std::pair<std::string_view, Op>, 6> kOps = {{
        {"==", Op::equal}, {"!=", Op::unequal}, {"<=", Op::less_equal}, {">=", Op::greater_equal},
        {"<", Op::less}, {">", Op::greater}}};
    for (const auto& [token, op] : kOps) {
      if (!take(token)) continue;
      if (left == Type::text) {
        if (op != Op::equal && op != Op::unequal) return fail("text has no order");
        if (!text_literal()) return fail("text is compared with a word");
      } else if (left == Type::boolean) {
        if (op != Op::equal && op != Op::unequal) return fail("true and false have no order");
        want(sum(), Type::boolean, "the comparison");
      } else {
        want(left, Type::number, "the comparison");
        want(sum(), Type::number, "the comparison");
      }
      step(op);
      return Type::boolean;
    }
    return left;
  }
  void list(Type left) {
    Expression::Step made;
    made.op = Op::in;
    expect("[");
    do {
      skip();
      std::string item;
      if (at_ < text_.size() && text_[at_] == '\'') {
        item = quoted();
      } else {
        const std::size_t start = at_;
        while (at_ < text_.size() && is_word(text_[at_])) ++at_;
        item = std::string(text_.substr(start, at_ - start));
      }
      if (item.empty()) fail("an item of the list is missing");
      made.words.push_back(std::move(item));
    } while (!fault_ && take(","));
    expect("]");
    if (left != Type::text && left != Type::number) fail("'in' needs text or a number");
    out_.steps_.push_back(std::move(made));
  }
  Type sum() {
    Type type = product();
    for (;;) {
      const Op op = take("+") ? Op::add : take("-") ? Op::subtract : Op::number;
      if (op == Op::number) return type;
      want(type, Type::number, "arithmetic");
      want(product(), Type::number, "arithmetic");
      step(op);
    }
  }
  Type product() {
    Type type = primary();
    for (;;) {
      const Op op = take("*")   ? Op::multiply
                    : take("/") ? Op::divide
                    : take("%") ? Op::modulo
                                : Op::number;
      if (op == Op::number) return type;
      want(type, Type::number, "arithmetic");
      want(primary(), Type::number, "arithmetic");
      step(op);
    }
  }
  Type primary() {
    skip();
    if (at_ >= text_.size()) return fail("it ends too early");
    if (take("(")) {
      const Type type = any();
      expect(")");
      return type;
    }
    const char first = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(first))) return number();
    if (first == '\'') {
      text_literal();
      return Type::text;
    }
    const std::string_view name = word();
    if (name.empty()) return fail("'" + std::string(1, first) + "' is not expected");
    if (name == "true" || name == "false") {
      // As a comparison of numbers: there is no push of a truth value.
      for (const double side : {0.0, name == "true" ? 0.0 : 1.0}) {
        step(Op::number);
        out_.steps_.back().number = side;
      }
      step(Op::equal);
      return Type::boolean;
    }
    if (take("(")) {
      const Type type = call(name);
      expect(")");
      return type;
    }
    return load(name, false);
  }
  Type number() {
    double value = 0;
    const auto [end, fault] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (fault != std::errc()) return fail("a number cannot be read");
    at_ = static_cast<std::size_t>(end - text_.data());
    step(Op::number);
    out_.steps_.back().number = value;
    return Type::number;
  }
  Type load(std::string_view name, bool guarded) {
    Expression::Step made;
    made.guarded = guarded;
    made.text = std::string(name);
    Type type = Type::text;
    if (const auto key = parsers::key_by_name(name)) {
      made.op = Op::key;
      made.key = *key;
      type = type_of(parsers::key_info(*key).type);
    } else if (const auto fact = fact_type(name)) {
      made.op = Op::fact;
      type = *fact;
    } else {
      return fail("there is no setting or fact '" + std::string(name) + "'");
    }
    out_.steps_.push_back(std::move(made));
    return type;
  }
  Type call(std::string_view name) {
    if (name == "known") {
      load(word(), true);
      step(Op::known);
      return Type::boolean;
    }
    if (name == "default") {
      const Type type = load(word(), true);
      expect(",");
      if (type == Type::text) {
        if (!text_literal()) fail("default() needs a word");
      } else {
        want(any(), type, "default()");
      }
      step(Op::fallback);
      return type;
    }
    if (name == "has") {
      want(load(word(), false), Type::list, "has()");
      expect(",");
      if (!text_literal()) fail("has() needs a word");
      step(Op::has);
      return Type::boolean;
    }
    if (name == "with") return list_with();
    if (name == "spaced" || name == "quoted") {
      want(any(), Type::list, name);
      step(name == "spaced" ? Op::spaced : Op::quoted);
      return Type::text;
    }
    if (name == "floor") {
      want(any(), Type::number, "floor()");
      step(Op::floor);
      return Type::number;
    }
    if (name == "min" || name == "max") {
      want(any(), Type::number, name);
      expect(",");
      want(any(), Type::number, name);
      step(name == "min" ? Op::min : Op::max);
      return Type::number;
    }
    return fail("there is no function '" + std::string(name) + "'");
  }

  Type list_with() {
    want(load(word(), true), Type::list, "with()");
    Expression::Step made;
    made.op = Op::with;
    while (!fault_ && take(",")) {
      const std::string_view item = word();
      if (item.empty()) return fail("with() needs words");
      made.words.emplace_back(item);
    }
    out_.steps_.push_back(std::move(made));
    return Type::list;
  }

  std::string_view text_;
  const Place& place_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Expression out_;
  std::optional<Error> fault_;
};

Result<Expression> Expression::parse(std::string_view text, const Place& place) {
  return ExpressionParser(text, place).run();
}

Result<Expression> Expression::condition(std::string_view text, const Place& place) {
  Result<Expression> made = parse(text, place);
  if (made.ok() && made->type() != Type::boolean)
    return Error(ErrorCode::syntax, "'" + std::string(text) + "' is not a condition")
        .because("it is neither true nor false")
        .at(place);
  return made;
}

}  // namespace triage::signatures
