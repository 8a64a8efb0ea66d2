// AlertDesk: from changes of incidents to items of the outbox, by the policy. On the desk's thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "daemon/alert/policy.hpp"
#include "daemon/runtime/desk.hpp"

namespace triage::daemon {

class AlertDesk {
 public:
  // held: called for each alert that is not sent, with its reason (silenced, inhibited, repeated, muted); may be empty.
  explicit AlertDesk(std::shared_ptr<const AlertConfig> config, std::function<void(const char* reason)> held = {});

  // What earlier runs told: rows of the outbox.
  void restore(std::vector<db::OutboxItem> rows);
  void configure(std::shared_ptr<const AlertConfig> config);

  OutboxPlan plan(const IncidentChange& change, parsers::TimePoint now);
  // The silences that hold now or will; what waits and is silenced now is taken back.
  OutboxPlan silence(std::vector<db::Silence> silences, parsers::TimePoint now);

 private:
  OutboxPlan outbox_plan(AlertPlan plan) const;

  std::shared_ptr<const AlertConfig> config_;
  AlertPolicy policy_;
  SilenceCheck silenced_;
  const std::function<void(const char*)> held_;
};

}  // namespace triage::daemon
