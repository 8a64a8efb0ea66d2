// The outbox of the database, as the sender and the policy want it.
#pragma once

#include "daemon/alert/policy.hpp"
#include "daemon/alert/sender.hpp"
#include "db/outbox.hpp"
#include "db/silences.hpp"

namespace triage::daemon {

// Owns the connection. One thread at a time, as AlertSender calls it.
class StoreOutbox final : public AlertOutbox {
 public:
  explicit StoreOutbox(db::Outbox outbox) : outbox_(std::move(outbox)) {}

  parsers::Result<std::vector<AlertItem>> due(const std::string& sink, parsers::TimePoint now, std::size_t limit) override;
  parsers::Result<bool> take(std::int64_t id, parsers::TimePoint now) override { return outbox_.take(id, now); }
  parsers::Status sent(std::int64_t id, const std::string& receipt, parsers::TimePoint now) override { return outbox_.sent(id, receipt, now); }
  parsers::Status retry(std::int64_t id, parsers::TimePoint not_before, const std::string& error, parsers::TimePoint now) override { return outbox_.retry(id, not_before, error, now); }
  parsers::Status dead(std::int64_t id, const std::string& error, parsers::TimePoint now) override { return outbox_.dead(id, error, now); }
  parsers::Status uncertain(std::int64_t id, const std::string& error, parsers::TimePoint now) override { return outbox_.uncertain(id, error, now); }
  parsers::Result<std::optional<AlertReceipt>> receipt(const std::string& sink, const std::string& incident) override;
  parsers::Status forget_receipt(const std::string& sink, const std::string& incident) override { return outbox_.forget_receipt(sink, incident); }

 private:
  db::Outbox outbox_;
  parsers::TimePoint now_{};                      // the latest that was told
};

AlertItem alert_item(const db::OutboxItem& row);
db::OutboxItem outbox_item(const AlertItem& item);

// Tells the policy, after a start, what the outbox knows: its rows in any order (db::Query::outbox).
void restore_policy(AlertPolicy& policy, std::vector<db::OutboxItem> rows);

// The check that AlertPolicy asks, over the silences that hold now or will.
SilenceCheck silence_check(std::vector<db::Silence> silences);

}  // namespace triage::daemon
