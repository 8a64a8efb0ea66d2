// Writes protobuf messages for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace triage::tests {

inline std::string wire_varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
inline std::string wire_number(std::uint32_t field, std::uint64_t value) { return wire_varint(field << 3) + wire_varint(value); }
inline std::string wire_bytes(std::uint32_t field, std::string_view bytes) { return wire_varint(field << 3 | 2) + wire_varint(bytes.size()) + std::string(bytes); }
inline std::string wire_fixed64(std::uint32_t field, std::uint64_t value) {
  std::string out = wire_varint(field << 3 | 1);
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

}  // namespace triage::tests
