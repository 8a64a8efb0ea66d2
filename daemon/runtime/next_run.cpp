#include "daemon/runtime/next_run.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/http/json_view.hpp"

namespace triage::daemon {

namespace {

constexpr std::size_t kSettings = 20;   // of a change that are named; more is another run, not a fix

// The value as it stands in an answer; lists and texts alike.
std::string text_of(const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

}  // namespace

std::optional<db::NextRun> compare_runs(std::string_view answer, const parsers::RunConfig& later, const std::vector<signatures::CatalogueFix>& catalogue) {
  const auto before = nlohmann::json::parse(answer, nullptr, false);
  if (!before.is_object() || !before.contains("config") || !before["config"].is_object()) return std::nullopt;
  const auto after = nlohmann::json::parse(json_text(config_json(later), -1), nullptr, false);
  std::set<std::string> changed;
  std::string settings;
  for (const auto& [key, setting] : after.items()) {
    const auto old = before["config"].find(key);
    if (old == before["config"].end() || !old->is_object() || !old->contains("value") || (*old)["value"] == setting["value"]) continue;
    changed.insert(key);
    if (changed.size() > kSettings) continue;
    settings += (settings.empty() ? "" : ", ") + key + ' ' + text_of((*old)["value"]) + " -> " + text_of(setting["value"]);
  }
  if (changed.empty()) return std::nullopt;
  db::NextRun out;
  out.settings = std::move(settings);
  if (const auto fixes = before.find("fixes"); fixes != before.end() && fixes->is_array())
    for (const auto& fix : *fixes) {
      const auto id = fix.is_object() ? fix.find("id") : fix.end();
      if (id == fix.end() || !id->is_string()) continue;
      const auto entry = std::find_if(catalogue.begin(), catalogue.end(), [&](const auto& one) { return one.id == *id; });
      if (entry == catalogue.end() || entry->change.empty()) continue;
      const bool applied = std::all_of(entry->change.begin(), entry->change.end(), [&](const auto& change) { return changed.contains(std::string(parsers::key_info(change.first).name)); });
      if (applied) out.fixes.push_back(id->template get<std::string>());
    }
  return out;
}

}  // namespace triage::daemon
