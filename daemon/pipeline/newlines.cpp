#include "daemon/pipeline/newlines.hpp"

#include <algorithm>
#include <cstddef>

namespace triage::daemon {

namespace {

constexpr std::size_t kLanes = 64;
constexpr std::size_t kRounds = 255;  // an 8-bit lane cannot overflow in so many rounds

}  // namespace

// Byte lanes that the compiler keeps in vector registers (this file is built with -O3).
std::uint64_t count_newlines(std::string_view text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t left = text.size();
  std::uint64_t total = 0;
  while (left >= kLanes) {
    unsigned char lanes[kLanes] = {};
    const std::size_t rounds = std::min(left / kLanes, kRounds);
    for (std::size_t round = 0; round < rounds; ++round, at += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] = static_cast<unsigned char>(lanes[lane] + (at[lane] == '\n'));
    for (const unsigned char lane : lanes) total += lane;
    left -= rounds * kLanes;
  }
  for (; left; --left, ++at) total += *at == '\n';
  return total;
}

}  // namespace triage::daemon
