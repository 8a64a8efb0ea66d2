#include "daemon/runtime/service_health.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace triage::daemon {

using parsers::TimePoint;

namespace {

constexpr auto kDeskStuck = std::chrono::seconds(120);   // a judgement of a job of thousands of ranks takes seconds

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double open_files() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  double count = 0;
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return std::max(0.0, count - 3);                       // ".", ".." and the folder itself
}

// Grows only; what others count is brought in.
void raise(metrics::Counter& counter, double to) {
  if (to > counter.value()) counter.add(to - counter.value());
}

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : "; ") + text;
  return out;
}

}  // namespace

api::Health health_of(const HealthInputs& in, TimePoint now) {
  api::Health out;
  out.version = in.version;
  out.started_at = in.started_at;
  const auto part = [&out](const char* name, const std::string& why) { out.parts.push_back({name, why.empty(), why}); };
  const TimePoint turn{std::chrono::microseconds(in.desk->turn.load())};
  const bool stuck = in.running && in.desk->turn != 0 && now - turn > kDeskStuck;
  std::string database = in.desk_trouble;
  if (!database.empty()) database += " (nothing is lost: sources wait, pushes are answered with 503)";
  if (database.empty() && !in.figures.trouble.empty()) database = in.figures.trouble;
  if (database.empty() && in.figures.short_of_closed) database = "the database is over its size, and only open incidents are left in it (retention: size)";
  part("database", database);
  part("sources", joined(in.watching.troubles));
  part("system_logs", in.system_trouble);
  part("desk", stuck ? "judging has not come back for two minutes" : in.queue >= in.queue_limit ? "findings come faster than they are judged; sources wait" : "");
  std::int64_t dead = 0, uncertain = 0;
  for (const db::SinkCount& count : in.figures.outbox) {
    if (count.state == db::OutboxState::dead) dead += count.items;
    if (count.state == db::OutboxState::uncertain) uncertain += count.items;
  }
  std::string alerts;
  if (dead > 0) alerts = std::to_string(dead) + " alerts could not be delivered";
  if (uncertain > 0) alerts += (alerts.empty() ? "" : ", ") + std::to_string(uncertain) + " may not have arrived";
  if (!alerts.empty()) alerts += " (triage status; POST /api/v1/outbox/items/ID/retry sends one again)";
  part("alerts", alerts);
  std::string configuration = in.refused.empty() ? "" : "the last reload was refused, the old configuration and rules go on: " + in.refused;
  if (configuration.empty() && !in.restart.empty()) configuration = "changes of " + in.restart + " take effect after a restart";
  part("configuration", configuration);
  out.alive = !stuck;
  out.ready = in.running && !stuck && in.desk_trouble.empty() && in.watching.scanned;
  return out;
}

void set_gauges(metrics::Registry& registry, const HealthInputs& in, TimePoint now) {
  using namespace metrics;
  registry.gauge(kBuildInfo, {in.version, in.rules_hash}).set(1);
  registry.gauge(kStartTime).set(std::chrono::duration<double>(in.started_at.time_since_epoch()).count());
  registry.gauge(kResidentBytes).set(resident_bytes());
  registry.gauge(kOpenFiles).set(open_files());
  for (const api::HealthPart& part : health_of(in, now).parts) registry.gauge(kHealthPart, {part.part}).set(part.ok ? 1 : 0);
  registry.gauge(kRules).set(static_cast<double>(in.rules));
  registry.gauge(kSources, {"watched"}).set(static_cast<double>(in.watching.files));
  registry.gauge(kSources, {"polled"}).set(static_cast<double>(in.watching.polled_files));
  registry.gauge(kSources, {"known"}).set(static_cast<double>(in.desk->sources.load()));
  raise(registry.counter(kReadBytes), static_cast<double>(in.watching.bytes));
  raise(registry.counter(kReadLines), static_cast<double>(in.watching.lines));
  raise(registry.counter(kSourceErrors), static_cast<double>(in.watching.errors));
  raise(registry.counter(kLostBytes, {"sources"}), static_cast<double>(in.watching.lost_bytes));
  raise(registry.counter(kFindings, {"telling"}), static_cast<double>(in.watching.findings));
  raise(registry.counter(kStoreErrors, {"commit"}), static_cast<double>(in.desk->failed_commits.load()));
  registry.gauge(kQueueDepth, {"news"}).set(static_cast<double>(in.queue));
  raise(registry.counter(kQueueWait, {"news"}), std::chrono::duration<double>(in.queue_waited).count());
  registry.gauge(kIncidentsOpen).set(static_cast<double>(in.desk->open_incidents.load()));
  if (in.figures.totals) {
    registry.gauge(kStoreBytes).set(static_cast<double>(in.figures.totals->bytes));
    registry.gauge(kSourceLagBytes).set(static_cast<double>(in.figures.totals->lag_bytes));
  }
  registry.clear(kOutbox);
  registry.clear(kOutboxAge);
  for (const db::SinkCount& count : in.figures.outbox) {
    registry.gauge(kOutbox, {count.sink, db::outbox_state_name(count.state)}).set(static_cast<double>(count.items));
    if (count.state == db::OutboxState::waiting) registry.gauge(kOutboxAge, {count.sink}).set(std::chrono::duration<double>(now - count.oldest).count());
  }
}

}  // namespace triage::daemon
