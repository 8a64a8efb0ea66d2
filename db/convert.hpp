// Between values and columns: times as microseconds since 1970, unsigned values as the signed integer of the same bits.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "parsers/base/units.hpp"

namespace triage::db {

inline std::int64_t micros(parsers::TimePoint time) { return time.time_since_epoch().count(); }
inline parsers::TimePoint time_of(std::int64_t value) { return parsers::TimePoint(std::chrono::microseconds(value)); }
inline std::int64_t whole(std::uint64_t value) { return static_cast<std::int64_t>(value); }
inline std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }
inline std::optional<std::int64_t> wide(std::optional<int> value) { return value ? std::optional<std::int64_t>(*value) : std::nullopt; }

}  // namespace triage::db
