// Sinks that are programs: the generic webhook (our own form, signed), Prometheus Alertmanager, PagerDuty.
#include "daemon/alert/sink.hpp"

#include "daemon/alert/hash.hpp"

namespace triage::daemon {
namespace {

std::int64_t seconds_of(parsers::TimePoint time) { return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count(); }

std::string text_of(const Json& json, std::string_view key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& incident_of(const Json& body) {
  static const Json kNone;
  const auto found = body.is_object() ? body.find("incident") : body.end();
  return found == body.end() ? kNone : *found;
}

std::string node_of(const Json& body) {
  const Json& incident = incident_of(body);
  const auto root = incident.is_object() ? incident.find("root") : incident.end();
  return incident.is_object() && root != incident.end() ? clean_line(text_of(*root, "node")) : std::string();
}

// A later run of the job passed the failing step.
bool passed(const Json& body) {
  const auto next = body.is_object() ? body.find("next_run") : body.end();
  if (next == body.end() || !next->is_object()) return false;
  const auto helped = next->find("helped");
  return helped == next->end() || !helped->is_boolean() || helped->get<bool>();
}

}  // namespace

// The signature covers time and body, so that an old message cannot be played again: hex(HMAC-SHA256(secret, TIME "." BODY)).
HttpRequest webhook_request(const WebhookSettings& settings, const Delivery& delivery) {
  Json json = {{"type", "triage.incident"}, {"version", kAlertVersion}, {"key", delivery.key}};
  for (const auto& [key, value] : delivery.body.items())
    if (key != "policy" && key != "version") json[key] = value;
  json["text"] = guard_mentions(plain_text(cut_parts(alert_text(delivery.body), 1)));
  HttpRequest request = json_post(settings.url.value, json);
  request.headers.emplace_back("Idempotency-Key", delivery.key);
  request.headers.emplace_back("X-Triage-Event", delivery.item.event);
  request.headers.emplace_back("X-Triage-Version", std::to_string(kAlertVersion));
  for (const auto& [name, value] : settings.headers) request.headers.emplace_back(name, value.value);
  if (!settings.secret.empty()) {
    const std::string time = std::to_string(seconds_of(delivery.now));
    request.headers.emplace_back("X-Triage-Signature", "t=" + time + ",v1=" + hmac_sha256_hex(settings.secret.value, time + "." + request.body));
  }
  return request;
}

// Source: prometheus/alertmanager, api/v2/openapi.yaml, postableAlerts. Labels are the identity: they stay the same for an incident.
// Alertmanager forgets an alert that is not sent again unless it says when it ends, so it does.
// limit: where a sharper diagnosis changes the severity, the alert with the old one fires until its end.
HttpRequest alertmanager_request(const AlertmanagerSettings& settings, const Delivery& delivery) {
  const Json& incident = incident_of(delivery.body);
  const AlertText text = cut_parts(alert_text(delivery.body), 1);
  Json labels = {{"alertname", "TrainingJobFailed"}, {"incident", delivery.item.incident}};
  const auto label = [&](const char* name, const std::string& value) {
    if (!value.empty()) labels[name] = cut_text(value, 200);
  };
  label("training_job", clean_line(text_of(incident, "job")));
  label("severity", text.severity);
  label("fingerprint", clean_line(text_of(incident, "fingerprint")));
  for (const auto& [name, value] : settings.labels) labels[name] = value;
  Json annotations = {{"summary", guard_mentions(text.title)}, {"description", guard_mentions(plain_text(text))}, {"kind", clean_line(text_of(incident, "kind"))}};
  if (const std::string node = node_of(delivery.body); !node.empty()) annotations["node"] = guard_mentions(cut_text(node, 200));
  Json alert = {{"labels", labels}, {"annotations", annotations}};
  if (const std::string at = text_of(delivery.body, "at"); !at.empty()) alert["startsAt"] = at;
  alert["endsAt"] = time_text(delivery.item.event == "next_run" && passed(delivery.body) ? delivery.now : delivery.now + settings.hold);
  if (!text.link.empty()) alert["generatorURL"] = text.link;
  HttpRequest request = json_post(settings.url.value + "/api/v2/alerts", Json::array({alert}));
  for (const auto& [name, value] : settings.headers) request.headers.emplace_back(name, value.value);
  return request;
}

// Source: developer.pagerduty.com "Send an alert event": summary up to 1024 characters, dedup_key up to 255, payload up to 512 KB.
HttpRequest pagerduty_request(const PagerDutySettings& settings, const Delivery& delivery) {
  constexpr std::size_t kSummary = 1024, kPayload = 512 * 1024;
  const std::string& event = delivery.item.event;
  const bool resolve = (event == "next_run" && passed(delivery.body)) || event == "resolved" || (event == "closed" && settings.resolve_on_close);
  Json json = {{"routing_key", settings.routing_key.value}, {"event_action", resolve ? "resolve" : event == "acknowledged" ? "acknowledge" : "trigger"}, {"dedup_key", cut_text("triage-" + delivery.item.incident, 255)}};
  if (resolve || event == "acknowledged") return json_post(settings.url, json);
  const AlertText whole = alert_text(delivery.body);
  const Json& incident = incident_of(delivery.body);
  const std::string job = clean_line(text_of(incident, "job")), node = node_of(delivery.body);
  const auto build = [&](double scale) {
    const AlertText text = cut_parts(whole, scale);
    Json details = {{"text", guard_mentions(plain_text(text))}, {"incident", delivery.item.incident}};
    if (scale == 1)
      for (const char* key : {"ledger", "collective", "echoes", "fixes", "missing"})
        if (const auto found = incident.is_object() ? incident.find(key) : incident.end(); incident.is_object() && found != incident.end()) details[key] = *found;
    json["payload"] = {{"summary", cut_text(guard_mentions(text.title + " - " + whole.what), kSummary)},
                       {"source", cut_text(node.empty() ? (job.empty() ? "training job" : job) : node, 255)},
                       {"severity", text.severity == "warning" || text.severity == "info" ? text.severity : "critical"},
                       {"component", cut_text(job, 255)},
                       {"class", cut_text(clean_line(text_of(incident, "kind")), 255)},
                       {"custom_details", details}};
    if (const std::string at = text_of(delivery.body, "at"); !at.empty()) json["payload"]["timestamp"] = at;
    json["client"] = "triaged";
    if (!text.link.empty()) {
      json["client_url"] = text.link;
      json["links"] = Json::array({{{"href", text.link}, {"text", "Open the diagnosis"}}});
    }
    return json_text(json, -1);
  };
  fit(build, [](const std::string& body) { return body.size() <= kPayload; });
  return json_post(settings.url, json);
}

// 202 accepted; 400 a fault of ours; 429 and 5xx again.
Outcome read_pagerduty(const HttpResponse& response, parsers::TimePoint now) { return outcome_of_status(response, now); }

}  // namespace triage::daemon
