#include "daemon/http/server/shared.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "daemon/http/server/connection.hpp"

namespace triage::daemon::api {

namespace {

constexpr auto kGivesWay = std::chrono::seconds(5);   // longer than a browser or a shipper pauses between two requests of one page or batch
constexpr std::uint32_t kSlowWaiting = 32;            // seconds of work each: who comes later is better told to come again

}  // namespace

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  constexpr std::array<const char*, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  char room[64];
  std::snprintf(room, sizeof room, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return room;
}

Shared::Shared(const HttpConfig& settings, const std::vector<HttpToken>& tokens, const Routes& known_routes, EventHub& events, metrics::Registry& values,
               std::function<void(const AccessRecord&)> access)
    : config(settings),
      routes(known_routes),
      hub(events),
      registry(values),
      log(std::move(access)),
      gate(settings, tokens),
      connections_gauge(values.gauge(metrics::kHttpConnections)),
      streams_gauge(values.gauge(metrics::kHttpStreams)),
      body_bytes(values.counter(metrics::kHttpBodyBytes)),
      date(date_text()) {}

void Shared::start_lanes() {
  const HttpLimits& limits = config.limits;
  lanes[static_cast<std::size_t>(Lane::quick)] = std::make_unique<LanePool>(limits.quick_threads, limits.waiting);
  lanes[static_cast<std::size_t>(Lane::push)] = std::make_unique<LanePool>(limits.push_threads, limits.waiting);
  lanes[static_cast<std::size_t>(Lane::slow)] = std::make_unique<LanePool>(limits.slow_threads, std::min(limits.waiting, kSlowWaiting));
  disk = std::make_unique<LanePool>(1, limits.waiting);
}

bool Shared::lanes_idle() const {
  return std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) { return !lane || lane->idle(); }) && (!disk || disk->idle());
}

void Shared::stop_lanes() {
  for (const auto& lane : lanes)
    if (lane) lane->stop();
  if (disk) disk->stop();
}

void Shared::join_lanes() {
  for (auto& lane : lanes) lane.reset();
  disk.reset();
}

bool Shared::reserve(std::uint64_t bytes) {
  std::uint64_t used = memory_used.load();
  do {
    if (bytes > config.limits.memory_bytes || used > config.limits.memory_bytes - bytes) return false;
  } while (!memory_used.compare_exchange_weak(used, used + bytes));
  return true;
}

void Shared::refused(std::string_view reason) { registry.counter(metrics::kHttpRefused, {reason}).add(); }

std::vector<std::shared_ptr<Connection>> Shared::alive() const {
  std::vector<std::shared_ptr<Connection>> all;
  all.reserve(connections.size());
  for (const auto& [connection, weak] : connections)
    if (auto one = weak.lock()) all.push_back(std::move(one));
  return all;
}

bool Shared::idle_gives_way() {
  std::shared_ptr<Connection> oldest;
  for (const auto& one : alive())
    if (one->idle_since() && (!oldest || *one->idle_since() < *oldest->idle_since())) oldest = one;
  if (!oldest || Clock::now() - *oldest->idle_since() < kGivesWay) return false;
  refused("idle_gave_way");
  oldest->close();
  return true;
}

void Shared::sweep() {
  const auto now = Clock::now();
  if (now - date_at >= std::chrono::milliseconds(500)) {
    date = date_text();
    date_at = now;
  }
  for (const auto& one : alive()) one->check_time(now);
}

void Shared::wake_streams() {
  if (streams == 0) return;
  for (const auto& one : alive()) one->wake();
}

void Shared::stop_connections() {
  stopping = true;
  for (const auto& one : alive()) one->server_stops();
}

}  // namespace triage::daemon::api
