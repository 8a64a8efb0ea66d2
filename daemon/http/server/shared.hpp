// What all connections of a server share: configuration, routes, gate, counters, limits, threads of the handlers, and the list of connections.
// No sockets here.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/http/event_hub.hpp"
#include "daemon/http/gate.hpp"
#include "daemon/http/http_config.hpp"
#include "daemon/http/lane_pool.hpp"
#include "daemon/http/message.hpp"
#include "daemon/http/server.hpp"
#include "daemon/metrics/registry.hpp"

namespace triage::daemon::api {

using Clock = std::chrono::steady_clock;

class Connection;

inline constexpr auto kHeartbeat = std::chrono::seconds(15);   // of event streams: below the time-outs of proxies

inline Clock::duration span_of(double seconds) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)); }

struct Shared {
  // tokens: with their secrets resolved.
  Shared(const HttpConfig& settings, const std::vector<HttpToken>& tokens, const Routes& known_routes, EventHub& events, metrics::Registry& values,
         std::function<void(const AccessRecord&)> access);

  void start_lanes();
  bool lanes_idle() const;                 // does no handler run or wait?
  void stop_lanes();                       // what waits is dropped
  void join_lanes();                       // waits for what runs

  // Bodies in memory: false when there is no room for so many more bytes. Any thread.
  bool reserve(std::uint64_t bytes);
  void release(std::uint64_t bytes) { memory_used -= bytes; }
  void refused(std::string_view reason);   // counts it

  // ---- on the I/O thread only
  bool has_room() const { return counted < config.limits.connections; }
  // Closes the connection that has waited longest for a next request, if one has for kGivesWay; so silent peers cannot keep others out.
  bool idle_gives_way();
  void sweep();                            // often: cuts the slow and the silent
  void wake_streams();
  void stop_connections();
  std::vector<std::shared_ptr<Connection>> alive() const;

  const HttpConfig config;
  const Routes& routes;
  EventHub& hub;
  metrics::Registry& registry;
  const std::function<void(const AccessRecord&)> log;
  const Gate gate;
  metrics::Gauge& connections_gauge;
  metrics::Gauge& streams_gauge;
  metrics::Counter& body_bytes;
  std::function<void(std::function<void()>)> post;   // runs it on the I/O thread, later; set by the listener

  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
  std::size_t counted = 0;                 // connections that count against the limit
  std::size_t refusals = 0;                // that are being told 503
  std::size_t streams = 0, uploads = 0;
  std::string date;                        // of the header Date
  Clock::time_point date_at = Clock::now();
  bool stopping = false;
  std::atomic<std::size_t> open = 0;
  std::atomic<std::uint64_t> memory_used = 0;

  std::array<std::unique_ptr<LanePool>, kLanes> lanes;   // at_once has none
  std::unique_ptr<LanePool> disk;          // one thread
};

// "Wed, 02 Dec 2026 16:38:02 GMT"
std::string date_text();

}  // namespace triage::daemon::api
