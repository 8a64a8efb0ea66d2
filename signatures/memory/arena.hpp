// Running account of the memory of one rank while a step is walked through: what is taken, dropped, and the highest moment, by part.
#pragma once

#include <array>
#include <cstddef>

namespace triage::signatures::memory {

// What a piece of memory belongs to; the parts become the terms of an estimate. `exchange`: what lies between ranks (borders of pipeline
// stages, gathered weights).
enum class Part : std::size_t { dense, moe, vision, logits, transient, weight_gradient, exchange, count };

using Parts = std::array<double, static_cast<std::size_t>(Part::count)>;

inline double total(const Parts& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}
inline Parts operator+(Parts a, const Parts& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
inline Parts operator*(Parts a, double factor) {
  for (double& part : a) part *= factor;
  return a;
}

class Arena {
 public:
  void take(Part part, double bytes) {
    live_[static_cast<std::size_t>(part)] += bytes;
    sum_ += bytes;
    if (sum_ > top_) top_ = sum_, at_top_ = live_;
  }
  void drop(Part part, double bytes) {
    live_[static_cast<std::size_t>(part)] -= bytes;
    sum_ -= bytes;
  }
  // Taken and dropped at once: counts for the highest moment only.
  void touch(Part part, double bytes) {
    take(part, bytes);
    drop(part, bytes);
  }
  const Parts& live() const { return live_; }
  double sum() const { return sum_; }
  // The highest moment since the last mark().
  const Parts& top() const { return at_top_; }
  void mark() { top_ = sum_, at_top_ = live_; }

 private:
  Parts live_{}, at_top_{};
  double sum_ = 0, top_ = 0;
};

}  // namespace triage::signatures::memory
