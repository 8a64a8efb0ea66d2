#include "daemon/cli/keep.hpp"

#include "daemon/http/json_view.hpp"
#include "db/store.hpp"

namespace triage::daemon {

parsers::Status keep_answer(const std::string& database, const Answer& answer, const std::string& rules_hash, parsers::TimePoint now) {
  TRIAGE_TRY(db::Store store, db::Store::open(database));
  std::vector<db::Keep> incidents;
  for (const JudgedIncident& incident : answer.incidents)
    incidents.push_back({incident.diagnosis, incident.plan, json_text(incident_json(incident), -1)});
  TRIAGE_TRY(const std::int64_t changed, store.keep(incidents, answer.sources, {rules_hash, program_version()}, now));
  (void)changed;
  return parsers::done();
}

}  // namespace triage::daemon
