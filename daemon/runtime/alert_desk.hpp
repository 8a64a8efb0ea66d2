// AlertDesk: from changes of incidents to items of the outbox, by the policy. On the desk's thread.
#pragma once

#include <memory>
#include <vector>

#include "daemon/alert/policy.hpp"
#include "daemon/runtime/desk.hpp"

namespace triage::daemon {

class AlertDesk {
 public:
  explicit AlertDesk(std::shared_ptr<const AlertConfig> config);

  // What earlier runs told: rows of the outbox.
  void restore(std::vector<db::OutboxItem> rows);
  void configure(std::shared_ptr<const AlertConfig> config);

  OutboxPlan plan(const IncidentChange& change, parsers::TimePoint now);
  // The silences that hold now or will; what waits and is silenced now is taken back.
  OutboxPlan silence(std::vector<db::Silence> silences, parsers::TimePoint now);

 private:
  std::shared_ptr<const AlertConfig> config_;
  AlertPolicy policy_;
  SilenceCheck silenced_;
};

}  // namespace triage::daemon
