#include "daemon/alert/store_outbox.hpp"

#include <algorithm>

namespace triage::daemon {

using parsers::Result;
using parsers::TimePoint;

namespace {

constexpr auto kBack = std::chrono::seconds(2);   // less may be two threads that looked at the clock one after the other

}  // namespace

Result<std::vector<AlertItem>> StoreOutbox::due(const std::string& sink, TimePoint now, std::size_t limit) {
  if (now + kBack < now_) TRIAGE_CHECK(outbox_.set_back(now));
  now_ = now + kBack < now_ ? now : std::max(now_, now);
  TRIAGE_TRY(const std::vector<db::OutboxItem> rows, outbox_.due_at(sink, now, static_cast<std::int64_t>(limit)));
  std::vector<AlertItem> out;
  for (const db::OutboxItem& row : rows) out.push_back(alert_item(row));
  return out;
}

Result<std::optional<AlertReceipt>> StoreOutbox::receipt(const std::string& sink, const std::string& incident) {
  TRIAGE_TRY(const auto found, outbox_.receipt(sink, incident));
  if (!found) return std::optional<AlertReceipt>();
  return std::optional<AlertReceipt>(AlertReceipt{found->channel, found->receipt});
}

AlertItem alert_item(const db::OutboxItem& row) {
  AlertItem out;
  out.id = row.id;
  out.sink = row.sink;
  out.channel = row.channel;
  out.incident = row.incident;
  out.event = row.event;
  out.revision = row.revision;
  out.body = row.body;
  out.not_before = row.not_before;
  out.tries = row.tries;
  out.created_at = row.created_at;
  return out;
}

db::OutboxItem outbox_item(const AlertItem& item) {
  db::OutboxItem out;
  out.sink = item.sink;
  out.channel = item.channel;
  out.incident = item.incident;
  out.event = item.event;
  out.revision = item.revision;
  out.body = item.body;
  out.not_before = item.not_before;
  return out;
}

void restore_policy(AlertPolicy& policy, std::vector<db::OutboxItem> rows) {
  std::sort(rows.begin(), rows.end(), [](const db::OutboxItem& a, const db::OutboxItem& b) { return a.id < b.id; });
  for (const db::OutboxItem& row : rows) {
    const bool waiting = row.state == db::OutboxState::waiting;
    const bool told = row.state == db::OutboxState::sent;
    // What is being sent, uncertain or dead was told as far as the policy is concerned; its body is still there.
    policy.restore(alert_item(row), told ? row.receipt : row.body, waiting, waiting ? row.not_before : row.changed_at);
  }
}

SilenceCheck silence_check(std::vector<db::Silence> silences) {
  return [silences = std::move(silences)](const Alert& alert, TimePoint now) -> std::string {
    for (const db::Silence& silence : silences)
      if (db::silences(silence, {alert.kind, alert.job, alert.node, alert.fingerprint}, now)) return "silence " + std::to_string(silence.id);
    return "";
  };
}

}  // namespace triage::daemon
