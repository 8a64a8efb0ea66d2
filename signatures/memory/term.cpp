#include "signatures/memory/term.hpp"

#include <algorithm>
#include <cmath>

namespace triage::signatures::memory {
namespace {

Bytes rounded(double bytes) {
  constexpr double kMost = 9e18;
  if (!std::isfinite(bytes)) return Bytes(static_cast<std::int64_t>(kMost));
  return Bytes(std::llround(std::clamp(bytes, -kMost, kMost)));
}

}  // namespace

Range Range::exact(double bytes) {
  const Bytes b = rounded(bytes);
  return {b, b, b};
}

Range Range::of(double low, double mid, double high) {
  return {rounded(std::min(low, mid)), rounded(mid), rounded(std::max(high, mid))};
}

void assume(Assumptions& list, std::string_view key, std::string text) {
  for (const Assumption& known : list)
    if (known.key == key && known.text == text) return;
  list.push_back({std::string(key), std::move(text)});
}

Term make_term(std::string_view name, Range range, std::string note, bool outside) {
  return {std::string(name), range.low, range.mid, range.high, std::move(note), outside};
}

Range sum_of(const std::vector<Term>& terms, bool outside) {
  Range sum;
  for (const Term& term : terms)
    if (term.outside == outside) sum += {term.low, term.mid, term.high};
  return sum;
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::init: return "init";
    case Phase::forward: return "forward";
    case Phase::loss: return "loss";
    case Phase::backward: return "backward";
    case Phase::optimizer_step: return "optimizer_step";
    case Phase::first_step: return "first_step";
  }
  return "";
}

}  // namespace triage::signatures::memory
