#include "daemon/runtime/alert_desk.hpp"

#include "daemon/alert/store_outbox.hpp"

namespace triage::daemon {

namespace {

// As the metric of suppressed alerts names it.
const char* name_of(HeldReason reason) {
  switch (reason) {
    case HeldReason::silenced: return "silenced";
    case HeldReason::inhibited: return "inhibited";
    case HeldReason::repeated: return "repeated";
    case HeldReason::muted: break;
  }
  return "muted";
}

}  // namespace

AlertDesk::AlertDesk(std::shared_ptr<const AlertConfig> config, std::function<void(const char*)> held)
    : config_(config), policy_(std::move(config)), silenced_(silence_check({})), held_(std::move(held)) {}

OutboxPlan AlertDesk::outbox_plan(AlertPlan plan) const {
  OutboxPlan out;
  out.withdraw = std::move(plan.withdraw);
  for (const AlertItem& item : plan.put) out.put.push_back(outbox_item(item));
  if (held_)
    for (const HeldAlert& alert : plan.held) held_(name_of(alert.reason));
  return out;
}

void AlertDesk::restore(std::vector<db::OutboxItem> rows) { restore_policy(policy_, std::move(rows)); }

void AlertDesk::configure(std::shared_ptr<const AlertConfig> config) {
  config_ = config;
  policy_.configure(std::move(config));
}

OutboxPlan AlertDesk::plan(const IncidentChange& change, parsers::TimePoint now) {
  if (config_->sinks.empty()) return {};
  const Json incident = Json::parse(change.answer, nullptr, false);
  if (!incident.is_object()) return {};
  const auto kind = incident.find("kind");
  AlertMaking making;
  making.mask = config_->mask;
  making.link = config_->link;
  const std::string severity = config_->severity_of(kind != incident.end() && kind->is_string() ? kind->get<std::string>() : "");
  Alert alert = make_alert(incident, change.event, change.tracked.revision, severity, change.tracked.opened_at, making);
  if (change.next_run)
    alert.next_run = Json{{"attempt", change.next_run->attempt}, {"helped", change.next_run->helped}, {"settings", change.next_run->settings}, {"fixes", change.next_run->fixes}};
  return outbox_plan(policy_.plan(alert, silenced_, now));
}

OutboxPlan AlertDesk::silence(std::vector<db::Silence> silences, parsers::TimePoint now) {
  silenced_ = silence_check(std::move(silences));
  return outbox_plan(policy_.recheck(silenced_, now));
}

}  // namespace triage::daemon
