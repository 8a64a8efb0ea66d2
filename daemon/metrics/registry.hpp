// Registry: the values of the catalogue's metrics, and their Prometheus text. Thread-safe. A counter costs one atomic addition when its
// reference is kept, and one locked look-up when it is asked for by labels each time. References stay valid as long as the registry.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/catalogue.hpp"

namespace triage::daemon::metrics {

class Counter {
 public:
  void add(double amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }   // amount: not negative
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Histogram {
 public:
  static constexpr std::size_t kBounds = 14;
  explicit Histogram(Buckets buckets);
  void observe(double value);
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  std::uint64_t count() const;
  // Observations up to each bound (not cumulated), and above the last.
  std::array<std::uint64_t, kBounds + 1> buckets() const;
  const std::array<double, kBounds>& bounds() const { return *bounds_; }

 private:
  const std::array<double, kBounds>* bounds_;
  std::array<std::atomic<std::uint64_t>, kBounds + 1> buckets_ = {};
  std::atomic<double> sum_ = 0;
};

class Registry {
 public:
  Registry();                                    // metrics without labels stand at zero from the start
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // metric: of the catalogue, of that type; as many label values as it has label names.
  Counter& counter(const Metric& metric, std::initializer_list<std::string_view> labels = {});
  Gauge& gauge(const Metric& metric, std::initializer_list<std::string_view> labels = {});
  Histogram& histogram(const Metric& metric, std::initializer_list<std::string_view> labels = {});
  // Hides all series of a labelled gauge until each is asked for again: for states that are set anew at each scrape and may have lost some.
  void clear(const Metric& metric);

  // Called before each text, to set gauges that are asked rather than told. Must not take long. Returns a token for forget().
  int before_scrape(std::function<void()> update);
  void forget(int token);

  // The text form 0.0.4 of Prometheus: HELP and TYPE of each metric that has a series, in the order of the catalogue.
  std::string prometheus();

 private:
  struct Family;
  Family& family(const Metric& metric, Type type) const;
  template <class T>
  T& series(const Metric& metric, Type type, std::initializer_list<std::string_view> labels);

  std::vector<std::unique_ptr<Family>> families_;      // in the order of the catalogue
  std::mutex scrape_mutex_;
  std::map<int, std::function<void()>> updates_;
  int next_token_ = 1;
};

}  // namespace triage::daemon::metrics
