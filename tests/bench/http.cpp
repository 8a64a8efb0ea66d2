// The server's speed over loopback, client and server in this process: requests a second for a page of 50 incidents, and lines a second of
// Loki's push as JSON and as gzip. The service behind it is a fake, so this is the cost of HTTP and of the bodies alone.
// usage: http_bench [SECONDS]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "daemon/http/compression.hpp"
#include "tests/support/http_fixture.hpp"

using namespace triage;
using namespace triage::tests;
using Clock = std::chrono::steady_clock;

namespace {

// Runs the request on `clients` connections; requests a second and the 99th percentile of their times in milliseconds.
void measure(const char* name, HttpFixture& fixture, const std::string& request, int clients, double seconds, double lines_each = 0) {
  std::atomic<std::uint64_t> done = 0, failed = 0;
  std::vector<std::vector<double>> times(static_cast<std::size_t>(clients));
  std::vector<std::thread> threads;
  const auto began = Clock::now();
  const auto until = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (std::size_t t = 0; t < times.size(); ++t)
    threads.emplace_back([&, t] {
      HttpConnection connection(fixture.port);
      while (Clock::now() < until) {
        const auto start = Clock::now();
        const int status = connection.ask(request).status;
        times[t].push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
        (status == 200 || status == 204 ? done : failed)++;
      }
    });
  for (std::thread& thread : threads) thread.join();
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  std::vector<double> all;
  for (const auto& some : times) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  const double p99 = all.empty() ? 0 : all[all.size() * 99 / 100];
  std::printf("%-34s %2d clients  %9.0f requests/s  p99 %7.2f ms  failed %llu", name, clients, static_cast<double>(done) / took, p99, static_cast<unsigned long long>(failed.load()));
  if (lines_each > 0) std::printf("  %.2f M lines/s", static_cast<double>(done) * lines_each / took / 1e6);
  std::printf("\n");
}

std::string loki_body(int lines) {
  std::string body = R"({"streams":[{"stream":{"job":"train","host":"gpu-17","filename":"/logs/rank3.log"},"values":[)";
  for (int i = 0; i < lines; ++i)
    body += (i ? "," : "") + std::string(R"(["17000000)") + std::to_string(10'000'000'000 + i) +
            R"("," [2026-12-01 13:19:02] iteration     )" + std::to_string(i) + R"(/  500000 | consumed samples: 1024 | elapsed time per iteration (ms): 1234.5 | lm loss: 2.345E+00 |"])";
  return body + "]}]}";
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 3;
  api::HttpConfig config = test_config();
  config.limits.stall_s = 20;
  HttpFixture fixture(config);
  fixture.service.fill(500);
  measure("GET /healthz", fixture, http_text("GET", "/healthz"), 4, seconds);
  measure("GET /api/v1/incidents?limit=50", fixture, http_text("GET", "/api/v1/incidents?limit=50"), 4, seconds);
  measure("the same, gzip", fixture, http_text("GET", "/api/v1/incidents?limit=50", "Accept-Encoding: gzip\r\n"), 4, seconds);
  constexpr int kLines = 5000;
  const std::string body = loki_body(kLines), packed = api::gzip(body, 6);
  const std::string json = "Content-Type: application/json\r\n";
  std::printf("Loki batch: %d lines, %zu bytes, %zu packed\n", kLines, body.size(), packed.size());
  measure("POST /loki/api/v1/push", fixture, http_text("POST", "/loki/api/v1/push", json, body), 4, seconds, kLines);
  measure("the same, gzip", fixture, http_text("POST", "/loki/api/v1/push", json + "Content-Encoding: gzip\r\n", packed), 4, seconds, kLines);
  return 0;
}
