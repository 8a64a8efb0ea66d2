#include "daemon/http/json_view.hpp"

#include <cstdio>
#include <ctime>

namespace triage::daemon {

using parsers::Bytes;
using namespace signatures;

namespace {

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json known(const std::optional<Bytes>& value) { return value ? Json(value->count()) : Json(nullptr); }
Json known(const std::optional<parsers::TimePoint>& value) { return value ? Json(time_text(*value)) : Json(nullptr); }
Json known(const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); }
Json positive(std::int64_t value) { return value > 0 ? Json(value) : Json(nullptr); }

Json frames_json(const std::vector<parsers::Frame>& frames) {
  Json out = Json::array();
  for (const parsers::Frame& frame : frames)
    out.push_back({{"file", frame.file}, {"line", positive(frame.line)}, {"function", known(frame.function)}});
  return out;
}

Json evidence_json(const Evidence& e) {
  return {{"source", e.source},
          {"line", positive(static_cast<std::int64_t>(e.line))},
          {"offset", e.offset},
          {"text", e.text},
          {"rank", known(e.rank)},
          {"local_rank", known(e.local_rank)},
          {"node", known(e.node)},
          {"device", known(e.device)},
          {"pid", known(e.pid)},
          {"time", known(e.time)},
          {"step", known(e.step)},
          {"frames", frames_json(e.frames)}};
}

Json echoes_json(const std::vector<Echo>& echoes) {
  Json out = Json::array();
  for (const Echo& echo : echoes)
    out.push_back({{"kind", echo.kind},
                   {"count", echo.count},
                   {"ranks", echo.ranks},
                   {"source", known(echo.source)},
                   {"first_line", echo.first_line}});
  return out;
}

Json ledger_json(const std::optional<Ledger>& ledger) {
  if (!ledger) return nullptr;
  Json others = Json::array();
  for (const parsers::ProcessMemory& process : ledger->other_processes)
    others.push_back({{"pid", process.pid}, {"bytes", process.bytes.count()}});
  return {{"capacity_bytes", known(ledger->capacity)},
          {"free_bytes", known(ledger->free)},
          {"tried_bytes", known(ledger->tried)},
          {"in_use_bytes", known(ledger->in_use)},
          {"allocated_bytes", known(ledger->allocated)},
          {"reserved_unallocated_bytes", known(ledger->reserved_unallocated)},
          {"outside_pytorch_bytes", known(ledger->outside_pytorch)},
          {"private_pools_bytes", known(ledger->private_pools)},
          {"limit_bytes", known(ledger->limit)},
          {"other_processes", others},
          {"note", known(ledger->note)}};
}

Json collective_json(const std::optional<CollectiveFault>& fault) {
  if (!fault) return nullptr;
  return {{"operation", known(fault->operation)},
          {"sequence", known(fault->sequence)},
          {"process_group", known(fault->process_group)},
          {"sizes", known(fault->sizes)},
          {"culprit_ranks", fault->culprit_ranks},
          {"one_of", fault->one_of},
          {"waiting_ranks", fault->waiting_ranks},
          {"silent_ranks", fault->silent_ranks},
          {"note", known(fault->note)}};
}

Json value_json(const parsers::Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

}  // namespace

Json config_json(const parsers::RunConfig& config) {
  Json out = Json::object();
  for (const auto& [key, setting] : config.settings())
    out[std::string(parsers::key_info(key).name)] = {{"value", value_json(setting.value)},
                                                     {"origin", setting.origin},
                                                     {"source", known(setting.place.file)},
                                                     {"line", known(setting.place.line)}};
  return out;
}

Json fix_json(const Fix& fix, int position) {
  Json apply = Json::array();
  for (const FixSetting& setting : fix.apply) apply.push_back({{"framework", setting.framework}, {"set", setting.set}});
  Json saving = nullptr;
  if (fix.saving)
    saving = {{"low", fix.saving->low.count()}, {"mid", fix.saving->mid.count()}, {"high", fix.saving->high.count()}};
  const Json step_time = {{"low", known(fix.cost.step_time_low_percent)}, {"high", known(fix.cost.step_time_high_percent)}};
  Json out = {{"id", fix.id},
              {"rank", position},
              {"title", fix.title},
              {"apply", apply},
              {"saving_bytes", saving},
              {"predicted_peak_bytes", known(fix.predicted_peak)},
              {"fits", known(fix.fits)},
              {"cost", {{"step_time_percent", step_time}, {"note", known(fix.cost.note)}}},
              {"basis", basis_name(fix.basis)},
              {"why", known(fix.why)},
              {"assumes", fix.assumes},
              {"sources", fix.sources}};
  if (!fix.parts.empty()) out["parts"] = fix.parts;
  return out;
}

namespace {

Json capture_json(const CaptureValue& value) {
  if (const auto* bytes = std::get_if<Bytes>(&value)) return bytes->count();
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  return std::get<double>(value);
}

Json findings_json(const Diagnosis& diagnosis) {
  Json out = Json::array();
  for (std::size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const Finding& finding = diagnosis.findings[i];
    Json captures = Json::object();
    for (const auto& [name, value] : finding.captures) captures[name] = capture_json(value);
    out.push_back({{"rule", finding.rule},
                   {"version", finding.version},
                   {"role", role_name(finding.role)},
                   {"kind", known(finding.kind)},
                   {"source", i < diagnosis.finding_sources.size() ? Json(diagnosis.finding_sources[i]) : Json(nullptr)},
                   {"line", finding.line},
                   {"count", finding.count},
                   {"rank", known(finding.rank)},
                   {"captures", captures}});
  }
  return out;
}

}  // namespace

std::string time_text(parsers::TimePoint time) {
  const auto micros = time.time_since_epoch().count();
  auto seconds = micros / 1'000'000;
  auto fraction = micros % 1'000'000;
  if (fraction < 0) {
    fraction += 1'000'000;
    --seconds;
  }
  const std::time_t value = seconds;
  std::tm parts{};
  gmtime_r(&value, &parts);
  char text[64];
  std::string out(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts));
  if (fraction != 0) {
    std::snprintf(text, sizeof text, ".%06lld", static_cast<long long>(fraction));
    out += text;
    while (out.back() == '0') out.pop_back();
  }
  return out + "Z";
}

Json incident_json(const JudgedIncident& incident) {
  const Diagnosis& d = incident.diagnosis;
  Json composition = Json::array();
  for (const CompositionTerm& term : d.composition)
    composition.push_back({{"term", term.term}, {"bytes", term.bytes.count()}, {"guessed_bytes", term.guessed.count()}, {"basis", basis_name(term.basis)}, {"in_doubt", term.in_doubt}});
  Json missing = Json::array();
  for (const Missing& item : d.missing) missing.push_back({{"what", item.what}, {"set", known(item.set)}});
  Json fixes = Json::array();
  for (const Fix& fix : incident.plan.fixes) fixes.push_back(fix_json(fix, static_cast<int>(fixes.size()) + 1));
  Json also = Json::array();
  for (const Evidence& evidence : d.also) also.push_back(evidence_json(evidence));
  return {{"id", d.id},
          {"fingerprint", d.fingerprint},
          {"kind", d.kind},
          {"backend", known(d.backend)},
          {"phase", d.phase == Phase::unknown ? Json(nullptr) : Json(phase_name(d.phase))},
          {"confidence", d.confidence},
          {"reasons", d.reasons},
          {"summary", d.summary},
          {"job", known(d.job)},
          {"attempt", d.attempt},
          {"framework", d.frameworks},
          {"root", evidence_json(d.root)},
          {"also", also},
          {"echoes", echoes_json(d.echoes)},
          {"ledger", ledger_json(d.ledger)},
          {"collective", collective_json(d.collective)},
          {"composition", composition},
          {"config", config_json(d.config)},
          {"first_action", known(d.help)},
          {"fixes", fixes},
          {"plan", known(incident.plan.verdict)},
          {"missing", missing},
          {"findings", findings_json(d)}};
}

Json answer_json(const Answer& answer, const std::string& rules_hash) {
  Json incidents = Json::array();
  for (const JudgedIncident& incident : answer.incidents) incidents.push_back(incident_json(incident));
  Json handled = Json::array();
  for (const Handled& item : answer.handled)
    handled.push_back({{"source", item.source},
                       {"line", item.line},
                       {"kind", item.kind},
                       {"rule", item.rule},
                       {"text", item.text},
                       {"why", item.why},
                       {"count", item.count},
                       {"rank", known(item.rank)}});
  Json lost = Json::array();
  for (const Lost& item : answer.lost)
    lost.push_back({{"source", item.source},
                    {"what", item.what},
                    {"line", item.line},
                    {"offset", item.offset},
                    {"bytes", item.bytes},
                    {"count", item.count}});
  const Json stats = {{"files", answer.stats.files},
                      {"bytes", answer.stats.bytes},
                      {"lines", answer.stats.lines},
                      {"seconds", answer.stats.seconds}};
  return {{"triage", {{"version", program_version()}, {"rules", {{"version", program_version()}, {"hash", rules_hash}}}}},
          {"incidents", incidents},
          {"handled", handled},
          {"lost", lost},
          {"stats", stats}};
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace triage::daemon
