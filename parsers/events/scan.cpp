#include "parsers/events/scan.hpp"

#include "parsers/base/limits.hpp"
#include "parsers/base/quantity.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

namespace triage::parsers {

namespace {

// Spelling as printed, spelling for read_bytes, bytes. Longer ones first.
struct Unit {
  std::string_view printed, plain;
  double bytes;
};
constexpr double kKib = 1024.0, kMib = kKib * 1024, kGib = kMib * 1024, kTib = kGib * 1024;
constexpr std::array<Unit, 24> kUnits{{
    {"bytes", "B", 1},    {"Bytes", "B", 1},    {"byte", "B", 1},     {"KiB", "KiB", kKib}, {"MiB", "MiB", kMib},
    {"GiB", "GiB", kGib}, {"TiB", "TiB", kTib}, {"kiB", "KiB", kKib}, {"KB", "KiB", kKib},  {"kB", "KiB", kKib},
    {"MB", "MiB", kMib},  {"GB", "GiB", kGib},  {"TB", "TiB", kTib},  {"Ki", "KiB", kKib},  {"Mi", "MiB", kMib},
    {"Gi", "GiB", kGib},  {"Ti", "TiB", kTib},  {"K", "KiB", kKib},   {"k", "KiB", kKib},   {"M", "MiB", kMib},
    {"G", "GiB", kGib},   {"T", "TiB", kTib},   {"B", "B", 1},        {"b", "B", 1},
}};

constexpr std::size_t kDigits = 24;  // more digits are not a size

}  // namespace

void Scan::blanks() {
  while (!done() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
}

bool Scan::word(std::string_view literal) {
  if (!rest().starts_with(literal)) return false;
  at_ += literal.size();
  return true;
}

bool Scan::after(std::string_view literal) {
  const auto found = text_.find(literal, at_);
  if (found == std::string_view::npos) return false;
  at_ = found + literal.size();
  return true;
}

std::string_view Scan::until(std::string_view any_of) {
  const auto found = text_.find_first_of(any_of, at_);
  const auto end = found == std::string_view::npos ? text_.size() : found;
  return text_.substr(std::exchange(at_, end), end - at_);
}

std::optional<std::int64_t> Scan::integer() {
  const auto start = at_;
  blanks();
  std::int64_t value = 0;
  const auto here = rest();
  const auto* first = here.data() + (here.starts_with('+') ? 1 : 0);
  const auto read = std::from_chars(first, here.data() + here.size(), value);
  if (read.ec != std::errc{}) {
    at_ = start;
    return std::nullopt;
  }
  at_ += static_cast<std::size_t>(read.ptr - here.data());
  return value;
}

std::optional<double> Scan::number() {
  const auto start = at_;
  blanks();
  double value = 0;
  const auto here = rest();
  const auto* end = here.data() + here.size();
  const auto* first = here.data() + (here.starts_with('+') ? 1 : 0);
  const auto read = std::from_chars(first, end, value);
  const bool named = read.ptr != first && is_alpha(*(read.ptr - 1));
  if (read.ec != std::errc{} || (named && read.ptr != end && is_word(*read.ptr))) {
    at_ = start;
    return std::nullopt;
  }
  at_ += static_cast<std::size_t>(read.ptr - here.data());
  return value;
}

std::optional<Quantity> Scan::quantity(bool bare) {
  const auto start = at_;
  blanks();
  std::string digits;
  std::size_t decimals = 0;
  bool point = false, any = false;
  while (!done() && digits.size() < kDigits) {
    const char c = text_[at_];
    if (is_digit(c)) {
      digits += c;
      any = true;
      if (point) ++decimals;
    } else if (c == '.' && !point && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
      digits += c;
      point = true;
    } else if (c != ',' || point || at_ + 1 >= text_.size() || !is_digit(text_[at_ + 1])) {
      break;
    }
    ++at_;
  }
  const auto number_end = at_;
  Unit unit{"", "B", 1};
  bool found = false;
  if (any) {
    if (peek() == ' ') ++at_;
    for (const Unit& candidate : kUnits) {
      const auto here = rest();
      if (!here.starts_with(candidate.printed)) continue;
      const auto behind = here.substr(candidate.printed.size());
      // The MLU allocator prints "1.00 GiBis free".
      if (!behind.empty() && is_word(behind.front()) && !behind.starts_with("is free")) continue;
      unit = candidate;
      at_ += candidate.printed.size();
      found = true;
      break;
    }
  }
  if (!any || digits.size() >= kDigits || (!found && !bare)) {
    at_ = start;
    return std::nullopt;
  }
  if (!found) at_ = number_end;
  double value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  Quantity result;
  double step = unit.bytes;
  for (std::size_t i = 0; i < decimals; ++i) step /= 10;
  result.error = Bytes(static_cast<std::int64_t>(step / 2) + (decimals > 0 ? 1 : 0));
  if (unit.bytes == 1) result.error = Bytes(0);
  if (value * unit.bytes >= 4611686018427387904.0) {
    result.meaningless = true;
    return result;
  }
  const auto bytes = read_bytes(digits + " " + std::string(unit.plain));
  if (!bytes) {
    at_ = start;
    return std::nullopt;
  }
  result.bytes = *bytes;
  return result;
}

std::optional<int> narrow(std::optional<std::int64_t> value) {
  if (!value || *value < std::numeric_limits<int>::min() || *value > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> rank_number(std::optional<std::int64_t> value) {
  if (!value || *value < 0 || *value > limits::kRanks) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace triage::parsers
