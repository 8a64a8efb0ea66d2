// How the service is, in words (health) and in figures (metrics), out of what its parts count.
#pragma once

#include <string>

#include "daemon/http/service_view.hpp"
#include "daemon/metrics/registry.hpp"
#include "daemon/runtime/desk_thread.hpp"
#include "daemon/runtime/housekeeping.hpp"
#include "daemon/runtime/watching.hpp"

namespace triage::daemon {

struct HealthInputs {
  std::string version, rules_hash;
  parsers::TimePoint started_at;
  bool running = false;                         // neither starting nor stopping
  WatchingState watching;
  StoreFigures figures;
  const DeskCounts* desk = nullptr;
  std::string desk_trouble, system_trouble, refused, restart;
  std::size_t queue = 0, queue_limit = 0, rules = 0;
  std::chrono::microseconds queue_waited{};     // by all that give to it, since the start
};

api::Health health_of(const HealthInputs& in, parsers::TimePoint now);
void set_gauges(metrics::Registry& registry, const HealthInputs& in, parsers::TimePoint now);

}  // namespace triage::daemon
