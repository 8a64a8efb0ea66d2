#include "signatures/plan/cards.hpp"

#include <array>

namespace triage::signatures {

namespace {

struct Card {
  std::string_view name;
  double gib;
};
// Totals as PyTorch's out-of-memory messages and start-up lines print them.
constexpr std::array kCards = {
    Card{"h200", 139.80},    Card{"h100", 79.11},     Card{"h100-80g", 79.11}, Card{"h100-94g", 93.10},  Card{"h800", 79.11},     Card{"h20", 95.00},
    Card{"gh200", 94.50},    Card{"gh200-144g", 139.80}, Card{"a100", 79.15},  Card{"a100-80g", 79.15},  Card{"a100-40g", 39.39}, Card{"a800", 79.15},
    Card{"b200", 178.35},    Card{"gb200", 184.00},   Card{"b300", 267.00},    Card{"gb300", 276.00},    Card{"l40s", 44.40},     Card{"l40", 44.40},
    Card{"l4", 22.00},       Card{"a40", 44.35},      Card{"a10", 22.00},      Card{"a10g", 22.00},      Card{"v100", 31.74},     Card{"v100-32g", 31.74},
    Card{"v100-16g", 15.77}, Card{"t4", 14.58},       Card{"rtx6000ada", 47.40}, Card{"a6000", 47.40},   Card{"rtx5090", 31.36},  Card{"rtx4090", 23.53},
    Card{"rtx3090", 23.57},  Card{"mi250x", 63.98},   Card{"mi300x", 191.98},  Card{"mi325x", 255.98},   Card{"mi355x", 287.98}};

// Lower case, without spaces, dashes and a trailing "b" of GB.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  if (out.ends_with("gb") && out.size() > 3) out.pop_back();
  for (const std::string_view maker : {"nvidia", "amd"})
    if (out.starts_with(maker)) out.erase(0, maker.size());
  return out;
}

}  // namespace

std::optional<parsers::Bytes> card_capacity(std::string_view name) {
  const std::string wanted = plain(name);
  for (const Card& card : kCards)
    if (plain(card.name) == wanted) return parsers::gib(card.gib);
  return std::nullopt;
}

std::string card_names() {
  std::string out;
  for (const Card& card : kCards) out += (out.empty() ? "" : ", ") + std::string(card.name);
  return out;
}

}  // namespace triage::signatures
