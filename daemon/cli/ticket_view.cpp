// The answer as Markdown and as SARIF.
#include <cmath>

#include "daemon/cli/view.hpp"
#include "daemon/http/request_text.hpp"
#include "parsers/base/quantity.hpp"

namespace triage::daemon {

using namespace signatures;

namespace {

constexpr std::string_view kPathCharacters = "/-._~!$&'()*+,;=@";   // what a file's name may keep in a URI reference (RFC 3986); no ':', which ends a scheme

// In a code fence nothing of outside text can be markup, but for the fence itself.
std::string fenced(std::string_view text) {
  std::string safe;
  for (const char c : one_line(text, 2000)) safe += c == '`' ? '\'' : c;
  return "```\n" + safe + "\n```\n";
}

// Text that no Markdown renderer takes for markup. A zero-width space after '@' and '#' keeps it from naming people, teams and tickets:
// renderers look for those after the backslashes are gone.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : one_line(text, 500)) {
    const bool at_start = out.empty() && std::string_view("-+=").find(c) != std::string_view::npos;   // a list, a rule, a heading
    if (at_start || std::string_view("\\`*_[]<>|#&~").find(c) != std::string_view::npos) out += '\\';
    out += c;
    if (c == '@' || c == '#') out += "\xe2\x80\x8b";
  }
  return out;
}

std::string incident_markdown(const JudgedIncident& incident) {
  const Diagnosis& d = incident.diagnosis;
  std::string out = "## " + escaped(d.kind);
  if (d.phase != Phase::unknown) out += " in " + std::string(phase_name(d.phase));
  out += " (" + std::to_string(std::lround(d.confidence * 100)) + " % sure)\n\n" + escaped(d.summary) + "\n\n";
  out += "- **where**: " + escaped(d.root.source) + (d.root.line > 0 ? ":" + std::to_string(d.root.line) : "");
  if (d.root.rank) out += ", rank " + std::to_string(*d.root.rank);
  if (d.root.step) out += ", step " + std::to_string(*d.root.step);
  out += "\n";
  if (d.collective) out += "- **collective**: " + escaped(collective_text(*d.collective)) + "\n";
  for (const Echo& echo : d.echoes) out += "- **echo**: " + escaped(echo.kind) + " x" + std::to_string(echo.count) + "\n";
  for (const std::string& reason : d.reasons) out += "- **why**: " + escaped(reason) + "\n";
  if (!d.help.empty()) out += "- **first**: " + escaped(d.help) + "\n";
  out += "\n" + fenced(d.root.text);
  if (!incident.plan.fixes.empty()) out += "\n### Fixes\n\n";
  for (std::size_t i = 0; i < incident.plan.fixes.size(); ++i) {
    const Fix& fix = incident.plan.fixes[i];
    out += std::to_string(i + 1) + ". **" + escaped(fix.title) + "** (" + escaped(fix.id) + ")";
    if (fix.saving) out += ", saves " + parsers::bytes_text(fix.saving->mid) + " " + std::string(basis_name(fix.basis));
    if (!fix.why.empty()) out += ": " + escaped(fix.why);
    out += "\n";
    for (const FixSetting& setting : fix.apply) {
      std::string safe;
      for (const char c : one_line(setting.set, 500)) safe += c == '`' ? '\'' : c;
      out += "   - " + escaped(setting.framework) + ": `" + safe + "`\n";
    }
  }
  if (!d.missing.empty()) out += "\n### Not known\n\n";
  for (const Missing& item : d.missing) out += "- " + escaped(item.what) + (item.set.empty() ? "" : ": " + escaped(item.set)) + "\n";
  return out + "\nincident " + escaped(d.id) + "\n";
}

}  // namespace

std::string answer_markdown(const Answer& answer) {
  if (answer.incidents.empty()) return "No failure found.\n";
  std::string out;
  for (const JudgedIncident& incident : answer.incidents) out += (out.empty() ? "" : "\n") + incident_markdown(incident);
  return out;
}

Json answer_sarif(const Answer& answer) {
  Json rules = Json::array(), results = Json::array();
  for (const JudgedIncident& incident : answer.incidents) {
    const Diagnosis& d = incident.diagnosis;
    bool there = false;
    for (const Json& rule : rules) there = there || rule["id"] == d.kind;
    if (!there) rules.push_back({{"id", d.kind}});
    Json region = {{"startLine", d.root.line > 0 ? d.root.line : 1}, {"snippet", {{"text", d.root.text}}}};
    Json location = {{"physicalLocation", {{"artifactLocation", {{"uri", api::percent_encode(d.root.source, kPathCharacters)}}}, {"region", region}}}};
    std::string text = d.summary;
    if (d.collective) text += "\n" + collective_text(*d.collective);
    for (std::size_t i = 0; i < incident.plan.fixes.size() && i < 3; ++i)
      text += "\nfix " + std::to_string(i + 1) + ": " + incident.plan.fixes[i].title;
    results.push_back({{"ruleId", d.kind},
                       {"level", "error"},
                       {"message", {{"text", text}}},
                       {"locations", Json::array({location})},
                       {"partialFingerprints", {{"triage", d.fingerprint}}},
                       {"rank", std::round(d.confidence * 100)}});
  }
  const Json driver = {{"name", "triage"}, {"version", program_version()}, {"rules", rules}};
  Json run = {{"tool", {{"driver", driver}}}, {"results", results}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
}

}  // namespace triage::daemon
