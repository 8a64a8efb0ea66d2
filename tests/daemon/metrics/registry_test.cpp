#include "daemon/metrics/registry.hpp"

#include <doctest/doctest.h>

#include <set>
#include <thread>

namespace metrics = triage::daemon::metrics;
using metrics::Registry;

TEST_CASE("the names of the catalogue follow the rule, each once") {
  std::set<std::string_view> seen;
  for (const metrics::Metric* metric : metrics::kCatalogue) {
    CAPTURE(std::string(metric->name));
    CHECK(seen.insert(metric->name).second);
    CHECK(metric->name.starts_with("triage_"));
    CHECK(metric->name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos);
    CHECK((metric->type == metrics::Type::counter) == metric->name.ends_with("_total"));
    CHECK((metric->type == metrics::Type::histogram) == (metric->buckets != metrics::Buckets::none));
    CHECK(metric->help.ends_with('.'));
    bool ended = false;
    for (const std::string_view label : metric->labels) {
      CHECK_FALSE((ended && !label.empty()));
      ended = ended || label.empty();
      CHECK(label.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos);
    }
  }
}

TEST_CASE("metrics without labels stand at zero from the start, with HELP and TYPE") {
  Registry registry;
  const std::string text = registry.prometheus();
  CHECK(text.find("# TYPE triage_read_bytes_total counter\ntriage_read_bytes_total 0\n") != std::string::npos);
  CHECK(text.find("# HELP triage_read_bytes_total ") != std::string::npos);
  CHECK(text.find("triage_commit_seconds_bucket{le=\"+Inf\"} 0\n") != std::string::npos);
  CHECK(text.find("triage_alerts_total") == std::string::npos);   // has labels and no series yet
}

TEST_CASE("label values are escaped and repaired") {
  Registry registry;
  registry.counter(metrics::kIncidents, {"a\\b\"c\nd\xff"}).add(2);
  CHECK(registry.prometheus().find("triage_incidents_total{kind=\"a\\\\b\\\"c\\nd\xef\xbf\xbd\"} 2\n") != std::string::npos);
}

TEST_CASE("buckets of a histogram are cumulated and its count is theirs") {
  Registry registry;
  auto& seconds = registry.histogram(metrics::kHttpSeconds, {"/healthz"});
  for (const double value : {0.0001, 0.003, 0.003, 99.0}) seconds.observe(value);
  const std::string text = registry.prometheus();
  CHECK(text.find("triage_http_request_seconds_bucket{route=\"/healthz\",le=\"0.0005\"} 1\n") != std::string::npos);
  CHECK(text.find("triage_http_request_seconds_bucket{route=\"/healthz\",le=\"0.005\"} 3\n") != std::string::npos);
  CHECK(text.find("triage_http_request_seconds_bucket{route=\"/healthz\",le=\"60\"} 3\n") != std::string::npos);
  CHECK(text.find("triage_http_request_seconds_bucket{route=\"/healthz\",le=\"+Inf\"} 4\n") != std::string::npos);
  CHECK(text.find("triage_http_request_seconds_count{route=\"/healthz\"} 4\n") != std::string::npos);
}

TEST_CASE("labels without a bound end in one series") {
  Registry registry;
  for (int i = 0; i < 3000; ++i) registry.counter(metrics::kIncidents, {"kind." + std::to_string(i)}).add();
  CHECK(registry.counter(metrics::kIncidents, {"other"}).value() == 2000);
}

TEST_CASE("gauges that are set at each scrape lose what is gone") {
  Registry registry;
  int round = 0;
  const int token = registry.before_scrape([&] {
    registry.clear(metrics::kOutbox);
    registry.gauge(metrics::kOutbox, {round++ == 0 ? "slack" : "mail", "dead"}).set(3);
  });
  CHECK(registry.prometheus().find("triage_outbox_items{sink=\"slack\",state=\"dead\"} 3") != std::string::npos);
  const std::string second = registry.prometheus();
  CHECK(second.find("slack") == std::string::npos);
  CHECK(second.find("triage_outbox_items{sink=\"mail\",state=\"dead\"} 3") != std::string::npos);
  registry.forget(token);
}

TEST_CASE("threads add without losing") {
  Registry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&registry] {
      for (int i = 0; i < 20'000; ++i) {
        registry.counter(metrics::kPushLines, {"loki"}).add();
        registry.histogram(metrics::kCommitSeconds).observe(0.01);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(registry.counter(metrics::kPushLines, {"loki"}).value() == 80'000);
  CHECK(registry.histogram(metrics::kCommitSeconds).count() == 80'000);
}
