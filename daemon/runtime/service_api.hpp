// What the API asks, answered from the store and from what the service knows of itself.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/alert/mask.hpp"
#include "daemon/http/service_view.hpp"
#include "daemon/runtime/query_pool.hpp"
#include "daemon/tail/file_system.hpp"
#include "db/outbox.hpp"
#include "db/query.hpp"
#include "db/silences.hpp"

namespace triage::daemon {

// What the service tells of itself; called from any thread.
struct ServiceFacts {
  std::function<parsers::TimePoint()> now;
  std::function<std::shared_ptr<const Knowledge>()> knowledge;
  std::function<api::Health()> health;
  std::function<std::string(const std::string& kind)> severity;
  std::function<void()> silences_changed;
  std::function<void()> outbox_changed;
  FileSystem* files = nullptr;           // that of the watched folders: a name may lead elsewhere since it was watched
  int default_year = 1970;
};

class ServiceApi : public api::ServiceView {
 public:
  ServiceApi(std::string database, ServiceFacts facts, MaskOptions mask, EventHub& hub);

  parsers::TimePoint now() override { return facts_.now(); }
  std::shared_ptr<const Knowledge> knowledge() override { return facts_.knowledge(); }
  EventHub& events() override { return hub_; }
  parsers::Result<api::IncidentPage> incidents(const api::IncidentQuery& query) override;
  parsers::Result<api::IncidentDetail> incident(const std::string& id) override;
  parsers::Result<api::Context> context(const api::ContextQuery& query) override;
  parsers::Result<std::vector<api::CountBucket>> counts(const api::CountQuery& query) override;
  parsers::Result<std::vector<api::RecurringNode>> recurring(const api::IncidentFilter& filter, std::size_t limit) override;
  parsers::Result<api::SourcePage> sources(const api::SourceQuery& query) override;
  parsers::Status say(const std::string& incident, const api::SaidFeedback& feedback) override;
  parsers::Result<std::vector<api::SilenceRow>> silences(bool ended_too) override;
  parsers::Result<api::SilenceRow> add_silence(const api::SilenceRow& silence) override;
  parsers::Status end_silence(const std::string& id) override;
  parsers::Result<std::vector<api::OutboxCount>> outbox_counts() override;
  parsers::Result<std::vector<api::OutboxRow>> outbox(const api::OutboxQuery& query) override;
  parsers::Status outbox_retry(std::int64_t id) override;
  parsers::Result<std::string> upload(const api::Upload& upload) override;
  api::Health health() override { return facts_.health(); }

 private:
  const std::string database_;
  const ServiceFacts facts_;
  const MaskOptions mask_;
  EventHub& hub_;
  QueryPool queries_;
};

}  // namespace triage::daemon
