#include "daemon/pipeline/snapshot_what_if.hpp"

#include <utility>

#include "parsers/base/quantity.hpp"
#include "signatures/memory/replay_recording.hpp"
#include "signatures/plan/replayed.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

constexpr std::size_t kUnaskedEvents = 500'000;   // a quarter of a second
constexpr std::size_t kPlannedEvents = 5'000'000; // five seconds for ten settings, once a failure

parsers::Status read_amount(const std::string& text, const char* option, std::optional<parsers::Bytes>& out) {
  if (text.empty()) return parsers::done();
  out = parsers::read_bytes(text);
  if (out && out->count() > 0) return parsers::done();
  return Error(ErrorCode::syntax, std::string(option) + " takes an amount of memory (80GiB, or bytes)");
}

}  // namespace

Result<WhatIfRequest> read_what_if(const std::vector<std::string>& texts, const std::string& capacity, const std::string& total) {
  WhatIfRequest out;
  for (const std::string& text : texts) {
    if (text == "all") {
      out.usual = true;
      continue;
    }
    auto conf = signatures::read_alloc_conf(text);
    if (!conf.ok()) return std::move(conf).error().context("reading --what-if '" + text.substr(0, 200) + "'");
    out.settings.push_back(std::move(conf).value());
  }
  TRIAGE_CHECK(read_amount(capacity, "--capacity", out.limits.capacity));
  TRIAGE_CHECK(read_amount(total, "--total-memory", out.limits.total_memory));
  return out;
}

std::vector<DeviceWhatIfs> what_ifs_of(const SnapshotAnalysis& analysis, const WhatIfRequest& request) {
  std::vector<DeviceWhatIfs> out;
  for (const parsers::DeviceTrace& traced : analysis.snapshot.traces) {
    if (!request.asked() && traced.events.size() > kUnaskedEvents) continue;
    const auto trace = signatures::replay_trace(analysis.snapshot, traced.device);
    if (!trace) continue;
    DeviceWhatIfs device;
    std::vector<signatures::AllocConf> settings = request.settings;
    for (signatures::AllocConf& conf : settings) {
      // The limit that the run had set to itself holds unless another one is asked for.
      if (!conf.memory_limit && !conf.per_process_memory_fraction) conf.memory_limit = trace->limit_at_least;
      if (!request.usual) device.asked.push_back(signatures::settings_text(conf));
    }
    if (request.usual)
      for (signatures::AllocConf& conf : signatures::usual_settings(*trace, request.limits)) settings.push_back(std::move(conf));
    device.device = traced.device;
    device.answer = signatures::what_if(*trace, settings, request.limits);
    device.recorded = trace->recorded;
    device.complete = trace->complete;
    device.capacity_known = trace->capacity || request.limits.capacity;
    device.skipped = trace->skipped;
    out.push_back(std::move(device));
  }
  return out;
}

std::vector<signatures::AllocatorWhatIf> what_ifs_for_plan(const parsers::AllocatorSnapshot& snapshot, int device) {
  const parsers::AllocatorTrace* events = snapshot.trace_of(device);
  if (!events || events->size() > kPlannedEvents) return {};
  const auto trace = signatures::replay_trace(snapshot, device);
  if (!trace || trace->recorded.ooms == 0) return {};
  const std::vector<signatures::AllocConf> settings = signatures::usual_settings(*trace);
  return signatures::allocator_what_ifs(signatures::what_if(*trace, settings), *trace);
}

}  // namespace triage::daemon
