// An incident as the service would tell it, and the pieces of an item made from it.
#pragma once

#include "daemon/alert/alert.hpp"
#include "daemon/alert/sender.hpp"
#include "daemon/alert/sink.hpp"

namespace triage::tests::alerting {

inline parsers::TimePoint noon() { return std::chrono::sys_days(std::chrono::year(2026) / 12 / 1) + std::chrono::hours(12); }

inline daemon::Json incident(const std::string& id = "cec9ef5474abbf0a", const std::string& line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.") {
  daemon::Json json = daemon::sample_incident();
  json["id"] = id;
  json["job"] = "llama-405b";
  json["attempt"] = 2;
  json["root"]["text"] = line;
  json["root"]["node"] = "gpu-node-17";
  return json;
}

inline daemon::Alert alert(const std::string& event = "opened", std::uint64_t revision = 1, const daemon::Json& json = incident(), parsers::TimePoint at = noon()) {
  return daemon::make_alert(json, event, revision, "", at, {{}, "https://triage.example.com/#/incidents/{id}"});
}

// Owns what a Delivery looks at.
struct Item {
  daemon::AlertItem item;
  daemon::Json body;
  std::string receipt;
  bool own = true;

  explicit Item(const daemon::Alert& from, std::string receipt_text = "") : body(daemon::alert_body(from)), receipt(std::move(receipt_text)) {
    item.sink = "chat";
    item.channel = "chat";
    item.incident = from.incident;
    item.event = from.event;
    item.revision = from.revision;
    item.body = daemon::json_text(body, -1);
  }
  daemon::Delivery delivery() const { return {item, body, receipt, own, daemon::idempotency_key(item), noon()}; }
};

}  // namespace triage::tests::alerting
