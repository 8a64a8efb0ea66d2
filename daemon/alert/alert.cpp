#include "daemon/alert/alert.hpp"

#include <algorithm>
#include <array>

#include "daemon/http/request_text.hpp"

namespace triage::daemon {
namespace {

constexpr std::size_t kFindings = 50, kSettings = 200, kFrames = 32, kFixes = 10, kText = 8 * 1024;

std::string text_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Keeps the first `keep` entries of an array or object; how many went is noted.
void shorten(Json& owner, const char* key, std::size_t keep, Json& cut) {
  const auto found = owner.find(key);
  if (found == owner.end() || !found->is_structured() || found->size() <= keep) return;
  cut[key] = found->size() - keep;
  if (found->is_array()) {
    found->erase(found->begin() + static_cast<std::ptrdiff_t>(keep), found->end());
  } else {
    Json kept = Json::object();
    for (const auto& [name, value] : found->items()) {
      if (kept.size() == keep) break;
      kept[name] = value;
    }
    *found = std::move(kept);
  }
}

void shorten_texts(Json& json, std::size_t limit, std::size_t& cut) {
  for (auto& value : json) {
    if (value.is_structured()) shorten_texts(value, limit, cut);   // depth is bounded by mask_json
    if (!value.is_string()) continue;
    auto& text = value.get_ref<std::string&>();
    if (text.size() <= limit) continue;
    std::size_t end = limit;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    cut += text.size() - end;
    text.resize(end);
    text += "\xe2\x80\xa6 [cut]";
  }
}

// The nodes that an incident names, for masking by choice.
void collect_nodes(const Json& json, std::vector<std::string>& nodes, int depth) {
  if (depth > 8) return;
  for (const auto& [key, value] : json.items()) {
    if (value.is_structured()) collect_nodes(value, nodes, depth + 1);
    if (key == "node" && value.is_string() && std::find(nodes.begin(), nodes.end(), value.get_ref<const std::string&>()) == nodes.end()) nodes.push_back(value);
  }
}

std::string link_of(const std::string& form, const std::string& id) {
  if (form.empty()) return "";
  const std::string safe = api::percent_encode(id, "-_.");
  const std::size_t at = form.find("{id}");
  if (at != std::string::npos) return form.substr(0, at) + safe + form.substr(at + 4);
  return form + (form.ends_with('/') ? "" : "/") + "api/v1/incidents/" + safe;
}

}  // namespace

Alert make_alert(const Json& incident, std::string event, std::uint64_t revision, std::string severity, parsers::TimePoint at, const AlertMaking& making) {
  Alert out;
  MaskOptions mask = making.mask;
  if (mask.hosts) collect_nodes(incident, mask.host_names, 0);
  Json cut = Json::object();
  Json json = incident;
  shorten(json, "findings", kFindings, cut);
  shorten(json, "config", kSettings, cut);
  shorten(json, "echoes", kFindings, cut);
  shorten(json, "also", kFindings, cut);
  shorten(json, "fixes", kFixes, cut);
  if (const auto root = json.find("root"); root != json.end() && root->is_object()) shorten(*root, "frames", kFrames, cut);
  json = mask_json(json, mask);
  std::size_t cut_bytes = 0;
  for (std::size_t limit = kText; json_text(json, -1).size() > kAlertBodyBytes - 16 * 1024 || limit == kText; limit /= 2) {
    shorten_texts(json, limit, cut_bytes);
    if (limit >= 512) continue;
    for (const char* key : {"findings", "config", "also", "echoes", "composition", "reasons"}) json.erase(key);
    cut["sections"] = true;
    break;
  }
  if (cut_bytes > 0) cut["text_bytes"] = cut_bytes;
  if (!cut.empty()) json["cut"] = cut;
  out.incident = text_of(incident, "id");
  out.fingerprint = text_of(incident, "fingerprint");
  out.kind = text_of(incident, "kind");
  out.job = text_of(json, "job");
  if (const auto root = json.find("root"); root != json.end()) out.node = text_of(*root, "node");
  if (const auto attempt = json.find("attempt"); attempt != json.end() && attempt->is_number_integer()) out.attempt = attempt->get<int>();
  out.severity = severity.empty() ? std::string(default_severity(out.kind)) : std::move(severity);
  out.event = std::move(event);
  out.revision = revision;
  out.at = at;
  out.link = link_of(making.link, out.incident);
  out.incident_json = std::move(json);
  return out;
}

std::string_view default_severity(std::string_view kind) {
  if (kind.empty() || kind == "none") return "info";
  constexpr std::array<std::string_view, 10> kWarnings = {"sched.time_limit", "sched.preempted", "sched.cancelled", "sched.requeued", "proc.sigterm", "config.", "env.", "data.", "net.hub", "user.exception"};
  return std::any_of(kWarnings.begin(), kWarnings.end(), [&](std::string_view head) { return kind.starts_with(head); }) ? "warning" : "critical";
}

Json alert_body(const Alert& alert) {
  return {{"version", kAlertVersion},
          {"event", alert.event},
          {"severity", alert.severity},
          {"at", time_text(alert.at)},
          {"link", alert.link.empty() ? Json(nullptr) : Json(alert.link)},
          {"incident", alert.incident_json},
          {"next_run", alert.next_run}};
}

}  // namespace triage::daemon
