#include "daemon/metrics/registry.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include "parsers/base/text.hpp"

namespace triage::daemon::metrics {

namespace {

constexpr std::array<double, Histogram::kBounds> kSecondBounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60};
constexpr std::array<double, Histogram::kBounds> kByteBounds = {256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456, 1073741824, 4294967296, 17179869184};

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char room[40];
  if (value == std::floor(value) && std::fabs(value) < 9e15)
    std::snprintf(room, sizeof room, "%.0f", value);
  else
    std::snprintf(room, sizeof room, "%.9g", value);
  return room;
}

// Values of labels: \, " and line ends are escaped; other bytes pass, but have to be UTF-8.
std::string label_value(std::string_view value) {
  std::string out;
  const std::string repaired = parsers::is_utf8(value) ? std::string() : parsers::repair_utf8(value);
  for (const char c : repaired.empty() ? value : std::string_view(repaired)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out;
}

std::string help_text(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::size_t label_count(const Metric& metric) {
  return static_cast<std::size_t>(std::count_if(metric.labels.begin(), metric.labels.end(), [](std::string_view name) { return !name.empty(); }));
}

}  // namespace

Histogram::Histogram(Buckets buckets) : bounds_(buckets == Buckets::bytes ? &kByteBounds : &kSecondBounds) {}

void Histogram::observe(double value) {
  std::size_t at = 0;
  while (at < kBounds && value > (*bounds_)[at]) ++at;
  buckets_[at].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::uint64_t Histogram::count() const {
  std::uint64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
  return total;
}

std::array<std::uint64_t, Histogram::kBounds + 1> Histogram::buckets() const {
  std::array<std::uint64_t, kBounds + 1> out = {};
  for (std::size_t i = 0; i <= kBounds; ++i) out[i] = buckets_[i].load(std::memory_order_relaxed);
  return out;
}

struct Registry::Family {
  struct Series {
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
    bool hidden = false;
  };
  const Metric* metric = nullptr;
  std::mutex mutex;
  std::map<std::vector<std::string>, Series> series;
};

Registry::Registry() {
  for (const Metric* metric : kCatalogue) {
    auto made = std::make_unique<Family>();
    made->metric = metric;
    families_.push_back(std::move(made));
    if (label_count(*metric) > 0) continue;
    switch (metric->type) {
      case Type::counter: counter(*metric); break;
      case Type::gauge: gauge(*metric); break;
      case Type::histogram: histogram(*metric); break;
    }
  }
}

Registry::~Registry() = default;

Registry::Family& Registry::family(const Metric& metric, [[maybe_unused]] Type type) const {
  const auto found = std::find(kCatalogue.begin(), kCatalogue.end(), &metric);
  assert(found != kCatalogue.end() && "the metric does not stand in the catalogue");
  assert(metric.type == type && "the metric is of another type");
  return *families_[static_cast<std::size_t>(found - kCatalogue.begin())];
}

template <class T>
T& Registry::series(const Metric& metric, Type type, std::initializer_list<std::string_view> labels) {
  Family& of = family(metric, type);
  assert(labels.size() == label_count(metric) && "the metric has other labels");
  const auto value_of = [&](Family::Series& series) -> T& {
    if constexpr (std::is_same_v<T, Counter>) {
      if (!series.counter) series.counter = std::make_unique<Counter>();
      return *series.counter;
    } else if constexpr (std::is_same_v<T, Gauge>) {
      if (!series.gauge) series.gauge = std::make_unique<Gauge>();
      return *series.gauge;
    } else {
      if (!series.histogram) series.histogram = std::make_unique<Histogram>(metric.buckets);
      return *series.histogram;
    }
  };
  std::vector<std::string> key(labels.begin(), labels.end());
  const std::lock_guard lock(of.mutex);
  auto found = of.series.find(key);
  if (found == of.series.end()) {
    if (of.series.size() >= kSeriesPerMetric) std::fill(key.begin(), key.end(), "other");
    found = of.series.try_emplace(std::move(key)).first;
  }
  found->second.hidden = false;
  return value_of(found->second);
}

Counter& Registry::counter(const Metric& metric, std::initializer_list<std::string_view> labels) { return series<Counter>(metric, Type::counter, labels); }
Gauge& Registry::gauge(const Metric& metric, std::initializer_list<std::string_view> labels) { return series<Gauge>(metric, Type::gauge, labels); }
Histogram& Registry::histogram(const Metric& metric, std::initializer_list<std::string_view> labels) {
  return series<Histogram>(metric, Type::histogram, labels);
}

void Registry::clear(const Metric& metric) {
  Family& of = family(metric, Type::gauge);
  const std::lock_guard lock(of.mutex);
  for (auto& [key, series] : of.series) {   // references may be held, so the values stay
    if (series.gauge) series.gauge->set(0);
    series.hidden = !key.empty();
  }
}

int Registry::before_scrape(std::function<void()> update) {
  const std::lock_guard lock(scrape_mutex_);
  updates_[next_token_] = std::move(update);
  return next_token_++;
}

void Registry::forget(int token) {
  const std::lock_guard lock(scrape_mutex_);
  updates_.erase(token);
}

std::string Registry::prometheus() {
  const std::lock_guard scrape(scrape_mutex_);
  for (const auto& [token, update] : updates_) update();
  std::string out;
  out.reserve(16 * 1024);
  for (const auto& of : families_) {
    const std::lock_guard lock(of->mutex);
    if (std::all_of(of->series.begin(), of->series.end(), [](const auto& entry) { return entry.second.hidden; })) continue;
    const Metric& metric = *of->metric;
    const std::string name(metric.name);
    const char* type = metric.type == Type::counter ? "counter" : metric.type == Type::gauge ? "gauge" : "histogram";
    out += "# HELP " + name + " " + help_text(metric.help) + "\n# TYPE " + name + " " + type + "\n";
    for (const auto& [values, series] : of->series) {
      if (series.hidden) continue;
      std::string labels;
      for (std::size_t i = 0; i < values.size(); ++i)
        labels += (i ? "," : "") + std::string(metric.labels[i]) + "=\"" + label_value(values[i]) + "\"";
      const std::string braces = labels.empty() ? "" : "{" + labels + "}";
      if (series.counter) out += name + braces + " " + number(series.counter->value()) + "\n";
      if (series.gauge) out += name + braces + " " + number(series.gauge->value()) + "\n";
      if (series.histogram) {
        const auto buckets = series.histogram->buckets();
        std::uint64_t total = 0;
        const std::string head = name + "_bucket{" + labels + (labels.empty() ? "" : ",") + "le=\"";
        for (std::size_t i = 0; i < Histogram::kBounds; ++i) {
          total += buckets[i];
          out += head + number(series.histogram->bounds()[i]) + "\"} " + std::to_string(total) + "\n";
        }
        total += buckets[Histogram::kBounds];
        out += head + "+Inf\"} " + std::to_string(total) + "\n";
        out += name + "_sum" + braces + " " + number(series.histogram->sum()) + "\n" + name + "_count" + braces + " " + std::to_string(total) + "\n";
      }
    }
  }
  return out;
}

}  // namespace triage::daemon::metrics
