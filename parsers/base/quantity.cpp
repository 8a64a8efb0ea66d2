#include "parsers/base/quantity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

// Power of 1024 of a unit in lower case, or nothing for an unknown word.
std::optional<int> unit_power(std::string_view unit) {
  if (unit.empty() || unit == "b" || unit == "byte" || unit == "bytes") return 0;
  constexpr std::string_view kLetters = "kmgtpe";
  const std::size_t at = kLetters.find(unit[0]);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  constexpr std::array<std::string_view, 7> kEnds = {"", "b", "ib", "i", "bytes", "ibytes", "byte"};
  if (std::find(kEnds.begin(), kEnds.end(), rest) == kEnds.end()) return std::nullopt;
  return static_cast<int>(at) + 1;
}

}  // namespace

std::optional<Bytes> read_bytes(std::string_view text) {
  text = trim(text);
  std::size_t i = 0;
  std::uint64_t whole = 0;
  bool overflow = false;
  for (; i < text.size() && is_digit(text[i]); ++i)
    overflow |= __builtin_mul_overflow(whole, std::uint64_t{10}, &whole) ||
                __builtin_add_overflow(whole, static_cast<std::uint64_t>(text[i] - '0'), &whole);
  if (i == 0 || overflow) return std::nullopt;

  // 19 digits of fraction are kept exactly; what follows is under a byte of an exbibyte.
  std::uint64_t fraction = 0;
  std::uint64_t fraction_scale = 1;
  if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) {
    for (++i; i < text.size() && is_digit(text[i]); ++i)
      if (fraction_scale < 1'000'000'000'000'000'000ULL) {
        fraction = fraction * 10 + static_cast<std::uint64_t>(text[i] - '0');
        fraction_scale *= 10;
      }
  }

  std::array<char, 8> lower{};
  const std::string_view unit = trim(text.substr(i));
  if (unit.size() > lower.size()) return std::nullopt;
  for (std::size_t k = 0; k < unit.size(); ++k) lower[k] = to_lower(unit[k]);
  const auto power = unit_power({lower.data(), unit.size()});
  if (!power) return std::nullopt;

  __extension__ using Wide = unsigned __int128;
  const Wide factor = Wide{1} << (10 * *power);
  const Wide total = whole * factor + (static_cast<Wide>(fraction) * factor + fraction_scale / 2) / fraction_scale;
  if (total > static_cast<Wide>(INT64_MAX)) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(total));
}

std::string bytes_text(Bytes bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  // 1023.995 would be printed as "1024.00": it belongs to the next unit.
  while (unit + 1 < kUnits.size() && std::abs(amount) >= (unit == 0 ? 1024.0 : 1023.995)) {
    amount /= 1024.0;
    ++unit;
  }
  std::array<char, 40> out{};
  if (unit == 0)
    std::snprintf(out.data(), out.size(), "%lld B", static_cast<long long>(bytes.count()));
  else
    std::snprintf(out.data(), out.size(), "%.2f %s", amount, kUnits[unit]);
  return out.data();
}

}  // namespace triage::parsers
