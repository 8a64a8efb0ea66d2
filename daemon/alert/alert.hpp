// What is told, and the pieces of its way: Alert (what happened), AlertItem (one thing to tell one sink, as it lies in the outbox),
// AlertReceipt (what names the message at the sink). The way: make_alert -> AlertPolicy -> outbox -> AlertSender -> AlertSink.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/alert/mask.hpp"
#include "daemon/http/json_view.hpp"

namespace triage::daemon {

inline constexpr int kAlertVersion = 1;                // of the body, and of the generic webhook
inline constexpr std::size_t kAlertBodyBytes = 192 * 1024;   // of a body: under PagerDuty's 512 KiB with room for our own texts

struct Alert {
  std::string incident, fingerprint, kind, job, node;
  int attempt = 1;
  std::string severity;                // critical, warning or info
  std::string event;                   // opened, updated, closed, next_run
  std::uint64_t revision = 0;          // grows with each change of the incident
  parsers::TimePoint at;               // when the incident was opened
  std::string link;                    // to the incident, or empty
  Json incident_json;                  // design section 8a, masked and shortened
  Json next_run;                       // event next_run: {"attempt", "helped", "settings", "fixes"}; else null
};

// One thing to tell one sink. (sink, incident, event, revision) is unique.
struct AlertItem {
  std::int64_t id = 0;                 // of the outbox
  std::string sink, channel, incident, event;
  std::uint64_t revision = 0;
  std::string body;                    // JSON: see alert_body
  parsers::TimePoint not_before;
  int tries = 0;                       // sends begun before
  parsers::TimePoint created_at;       // by the outbox; its age ends the retries
};

struct AlertReceipt {
  std::string channel, receipt;        // receipt: JSON of the sink that wrote it
};

// Makes the alert of an incident as incident_json gives it: masks every text, drops what no message shows (findings beyond the first 50,
// settings beyond 200, frames beyond 32) and keeps it under kAlertBodyBytes; what was dropped is counted under "cut".
struct AlertMaking {
  MaskOptions mask;
  std::string link;                    // "{id}" is replaced by the id; without it, the id is appended
};
Alert make_alert(const Json& incident, std::string event, std::uint64_t revision, std::string severity, parsers::TimePoint at, const AlertMaking& making);

// critical: a fault took a job down; warning: a scheduler, a user or a configuration ended it; info: news without a failure.
std::string_view default_severity(std::string_view kind);

// The body of an item, the same for every sink:
// {"version", "event", "severity", "at", "link", "incident": {...}, "next_run", "group": {"others": [{incident, job, node, kind, summary}]},
//  "seen": how often this cause was held back since it was last told, "policy": {...}}
// policy is what AlertPolicy wants to know again after a restart; sinks do not look at it.
Json alert_body(const Alert& alert);

}  // namespace triage::daemon
