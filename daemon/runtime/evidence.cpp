#include "daemon/runtime/evidence.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "signatures/match/signature.hpp"

namespace triage::daemon {

Evidence evidence_of(const signatures::Diagnosis& diagnosis) {
  Evidence out;
  out.emplace(diagnosis.root.source, diagnosis.root.line);
  for (const signatures::Evidence& also : diagnosis.also) out.emplace(also.source, also.line);
  for (std::size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const signatures::Role role = diagnosis.findings[i].role;
    if (role == signatures::Role::fact || role == signatures::Role::progress || role == signatures::Role::advice) continue;
    out.emplace(i < diagnosis.finding_sources.size() ? diagnosis.finding_sources[i] : diagnosis.root.source, diagnosis.findings[i].line);
  }
  return out;
}

parsers::Result<Evidence> evidence_of_answer(std::string_view answer) {
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  const auto fault = [] { return parsers::Error(parsers::ErrorCode::syntax, "a stored answer is not what this program writes"); };
  if (!json.is_object() || !json.contains("root") || !json["root"].is_object()) return fault();
  Evidence out;
  const auto add = [&out](const nlohmann::json& place, const std::string& otherwise) {
    if (!place.is_object()) return;
    const auto line = place.find("line");
    if (line == place.end() || !line->is_number_unsigned()) return;
    const auto source = place.find("source");
    out.emplace(source != place.end() && source->is_string() ? source->get<std::string>() : otherwise, line->get<std::uint64_t>());
  };
  const std::string root = json["root"].value("source", std::string());
  add(json["root"], root);
  if (const auto findings = json.find("findings"); findings != json.end() && findings->is_array())
    for (const auto& finding : *findings) {
      const auto role = finding.is_object() ? finding.find("role") : finding.end();
      if (role != finding.end() && (*role == "fact" || *role == "progress" || *role == "advice")) continue;
      add(finding, root);
    }
  return out;
}

std::vector<int> match_evidence(const std::vector<Evidence>& found, const std::vector<const Evidence*>& known) {
  std::vector<std::tuple<std::size_t, std::size_t, std::size_t>> pairs;   // shared places, found, known
  for (std::size_t f = 0; f < found.size(); ++f)
    for (std::size_t k = 0; k < known.size(); ++k) {
      const auto shared = static_cast<std::size_t>(std::count_if(found[f].begin(), found[f].end(), [&](const auto& place) { return known[k]->contains(place); }));
      if (shared > 0) pairs.emplace_back(shared, f, k);
    }
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return std::get<0>(a) > std::get<0>(b); });
  std::vector<int> out(found.size(), -1);
  std::vector<bool> given(known.size(), false);
  for (const auto& [shared, f, k] : pairs) {
    if (out[f] >= 0 || given[k]) continue;
    out[f] = static_cast<int>(k);
    given[k] = true;
  }
  return out;
}

}  // namespace triage::daemon
