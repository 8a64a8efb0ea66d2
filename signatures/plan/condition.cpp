#include "signatures/plan/condition.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <utility>

namespace triage::signatures {

using parsers::Key;
using parsers::KeyType;

namespace {

bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i])))
      return false;
  return true;
}

// A value of another type than the key's counts as unknown.
Datum key_value(const parsers::RunConfig& config, Key key) {
  switch (parsers::key_info(key).type) {
    case KeyType::boolean:
      if (const auto flag = config.boolean(key)) return *flag;
      break;
    case KeyType::integer:
    case KeyType::number:
      if (const auto number = config.number(key)) return *number;
      break;
    case KeyType::text:
      if (auto text = config.text(key)) return std::move(*text);
      break;
    case KeyType::list:
      if (const auto* list = config.list(key)) return *list;
      break;
  }
  return {};
}

Datum fact_value(const Facts& facts, std::string_view name) {
  const auto at = facts.find(name);
  return at == facts.end() ? Datum{} : at->second;
}

std::string number_text(double number) {
  char text[40];
  if (number == std::floor(number) && std::abs(number) < 9e15)
    std::snprintf(text, sizeof text, "%.0f", number);
  else
    std::snprintf(text, sizeof text, "%g", number);
  return text;
}

}  // namespace

std::string datum_text(const Datum& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    std::string out = "[";
    for (const std::string& item : *list) out += (out.size() > 1 ? ", " : "") + item;
    return out + "]";
  }
  return "?";
}

Datum Expression::value(const Scope& scope) const {
  std::vector<Datum> stack;
  const auto pop = [&stack] {
    Datum top = std::move(stack.back());
    stack.pop_back();
    return top;
  };
  const auto known = [](const Datum& datum) { return datum.index() != 0; };
  for (const Step& step : steps_) {
    switch (step.op) {
      case Op::number: stack.emplace_back(step.number); break;
      case Op::word: stack.emplace_back(step.text); break;
      case Op::words: stack.emplace_back(step.words); break;
      case Op::key: stack.push_back(key_value(scope.config, step.key)); break;
      case Op::fact: stack.push_back(fact_value(scope.facts, step.text)); break;
      case Op::known: stack.emplace_back(known(pop())); break;
      case Op::fallback: {
        Datum other = pop();
        if (!known(stack.back())) stack.back() = std::move(other);
        break;
      }
      case Op::logical_not: {
        const Datum a = pop();
        stack.push_back(known(a) ? Datum(!std::get<bool>(a)) : Datum{});
        break;
      }
      case Op::logical_and:
      case Op::logical_or: {
        const Datum b = pop(), a = pop();
        const bool decides = step.op == Op::logical_or;  // the value that settles it alone
        const bool settled = (known(a) && std::get<bool>(a) == decides) ||
                             (known(b) && std::get<bool>(b) == decides);
        if (settled)
          stack.emplace_back(decides);
        else
          stack.push_back(known(a) && known(b) ? Datum(!decides) : Datum{});
        break;
      }
      case Op::in: {
        const Datum a = pop();
        if (!known(a)) {
          stack.emplace_back();
          break;
        }
        const std::string text = datum_text(a);
        bool found = false;
        for (const std::string& item : step.words) found = found || same_text(item, text);
        stack.emplace_back(found);
        break;
      }
      case Op::has: {
        const Datum item = pop(), list = pop();
        if (!known(list)) {
          stack.emplace_back();
          break;
        }
        bool found = false;
        for (const std::string& entry : std::get<std::vector<std::string>>(list))
          found = found || same_text(entry, std::get<std::string>(item));
        stack.emplace_back(found);
        break;
      }
      case Op::with: {
        std::vector<std::string> list;
        if (const Datum old = pop(); known(old)) list = std::get<std::vector<std::string>>(old);
        for (const std::string& item : step.words)
          if (std::none_of(list.begin(), list.end(), [&](const std::string& entry) { return same_text(entry, item); })) list.push_back(item);
        stack.emplace_back(std::move(list));
        break;
      }
      case Op::spaced:
      case Op::quoted: {
        const Datum a = pop();
        if (!known(a)) {
          stack.emplace_back();
          break;
        }
        std::string text;
        for (const std::string& item : std::get<std::vector<std::string>>(a))
          text += step.op == Op::spaced ? (text.empty() ? "" : " ") + item : (text.empty() ? "\"" : ", \"") + item + "\"";
        stack.emplace_back(std::move(text));
        break;
      }
      case Op::floor: {
        const Datum a = pop();
        stack.push_back(known(a) ? Datum(std::floor(std::get<double>(a))) : Datum{});
        break;
      }
      case Op::equal:
      case Op::unequal: {
        const Datum b = pop(), a = pop();
        if (!known(a) || !known(b)) {
          stack.emplace_back();
          break;
        }
        const auto* left = std::get_if<std::string>(&a);
        const bool equal = left ? same_text(*left, std::get<std::string>(b)) : a == b;
        stack.emplace_back(equal == (step.op == Op::equal));
        break;
      }
      default: {
        const Datum right = pop(), left = pop();
        if (!known(left) || !known(right)) {
          stack.emplace_back();
          break;
        }
        const double a = std::get<double>(left), b = std::get<double>(right);
        Datum made;
        switch (step.op) {
          case Op::less: made = a < b; break;
          case Op::less_equal: made = a <= b; break;
          case Op::greater: made = a > b; break;
          case Op::greater_equal: made = a >= b; break;
          case Op::add: made = a + b; break;
          case Op::subtract: made = a - b; break;
          case Op::multiply: made = a * b; break;
          case Op::divide: if (b != 0) made = a / b; break;
          case Op::modulo: if (b != 0) made = std::fmod(a, b); break;
          case Op::min: made = a < b ? a : b; break;
          case Op::max: made = a < b ? b : a; break;
          default: break;
        }
        stack.push_back(std::move(made));
      }
    }
  }
  return stack.empty() ? Datum{} : std::move(stack.back());
}

Truth Expression::truth(const Scope& scope) const {
  const Datum datum = value(scope);
  if (const bool* flag = std::get_if<bool>(&datum)) return *flag ? Truth::yes : Truth::no;
  return Truth::unknown;
}

bool Expression::always_known() const {
  for (const Step& step : steps_)
    if ((step.op == Op::key || step.op == Op::fact) && !step.guarded) return false;
  return true;
}

std::vector<std::string> Expression::missing(const Scope& scope) const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.guarded) continue;
    const bool absent =
        (step.op == Op::key && !scope.config.has(step.key)) ||
        (step.op == Op::fact && fact_value(scope.facts, step.text).index() == 0);
    bool told = false;
    for (const std::string& name : names) told = told || name == step.text;
    if (absent && !told) names.push_back(step.text);
  }
  return names;
}

}  // namespace triage::signatures
