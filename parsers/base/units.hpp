// Strong types of quantities. Memory is Bytes everywhere; a bare integer for memory or time is a mistake.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace triage::parsers {

// A number of bytes; signed, since differences are shown (what the model cannot explain may be negative).
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }
  constexpr double gib() const { return static_cast<double>(count_) / 1073741824.0; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  constexpr Bytes operator-() const { return Bytes(-count_); }
  constexpr Bytes& operator+=(Bytes o) { count_ += o.count_; return *this; }
  constexpr Bytes& operator-=(Bytes o) { count_ -= o.count_; return *this; }

 private:
  std::int64_t count_ = 0;
};

constexpr Bytes kib(double n) { return Bytes(static_cast<std::int64_t>(n * 1024.0)); }
constexpr Bytes mib(double n) { return Bytes(static_cast<std::int64_t>(n * 1048576.0)); }
constexpr Bytes gib(double n) { return Bytes(static_cast<std::int64_t>(n * 1073741824.0)); }

// UTC, microseconds. A clock without zone in a log is taken as UTC; one without year gets it from its caller.
using TimePoint = std::chrono::sys_time<std::chrono::microseconds>;

}  // namespace triage::parsers
