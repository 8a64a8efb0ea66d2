// Who is told what, and when. Pure: the time is an argument, nothing is sent here. The desk asks for each change of an incident and puts
// what comes back into the outbox, in the transaction that keeps the incident.
//
// - Routes choose the sinks by job, kind, severity and node.
// - Grouping: the first alert of a cause waits for group_wait; incidents of the same group that come in meanwhile are told in one message
//   (sinks for machines get one message an incident).
// - Repeats: the same cause in the same job is told again only after repeat_interval; what is held back is counted and told then.
// - Updates: told when what a person acts on has changed, at most once in group_interval; a newer one replaces one that still waits.
// - Silences and inhibition hold back alerts that were not told yet, and take back what still waits; the others of its group stay.
//   What was taken back is told by its next change once the silence has ended.
//
// What is remembered is bounded, and comes back after a restart through restore().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/alert/alert.hpp"
#include "daemon/alert/alert_config.hpp"
#include "db/live_rows.hpp"

namespace triage::daemon {

// An item that is to be taken back, if it still waits. If it does not, it was sent or is being sent, and nothing is to be done.
using AlertKey = db::OutboxKey;

enum class HeldReason { silenced, inhibited, repeated, muted };

struct HeldAlert {
  std::string sink;                    // empty: all
  std::string incident;
  HeldReason reason{};
  std::string why;                     // "silence 7", "echo of INCIDENT", "told 12 min ago", "muted by a route"
};

// Withdraw first, then put, in one transaction.
struct AlertPlan {
  std::vector<AlertKey> withdraw;
  std::vector<AlertItem> put;
  std::vector<HeldAlert> held;
};

// The name of the silence that holds this alert back, or empty.
using SilenceCheck = std::function<std::string(const Alert&, parsers::TimePoint now)>;

class AlertPolicy {
 public:
  explicit AlertPolicy(std::shared_ptr<const AlertConfig> config);

  // An incident was opened, has changed, was closed, or a later run passed. Never fails; the same alert again gives an empty plan.
  AlertPlan plan(const Alert& alert, const SilenceCheck& silenced, parsers::TimePoint now);
  // A silence was made: what waits and is silenced now is taken back.
  AlertPlan recheck(const SilenceCheck& silenced, parsers::TimePoint now);

  // After a start, oldest first: what the outbox still knows. record: the item's body while it waits, else its receipt as the sender
  // wrote it; anything else is ignored. at: when it was sent or is to be sent.
  void restore(const AlertItem& item, const std::string& record, bool waiting, parsers::TimePoint at);

  // A new configuration: what was told stays known.
  void configure(std::shared_ptr<const AlertConfig> config) { config_ = std::move(config); }
  std::size_t remembered() const { return told_.size(); }

 private:
  using Clock = parsers::TimePoint;
  // What one sink was told of one incident.
  struct Told {
    std::uint64_t revision = 0;
    std::string digest;                // of what a person acts on
    std::string thread;                // the incident whose message this one is part of
    std::string group, repeat;         // keys
    Clock at;                          // of the newest item: when it is to be sent
    bool waiting = false;              // it may still lie in the outbox
    bool first = false;                // that item is the first to tell of it and of its group
    bool held = false;                 // never told: the cause was told before
    AlertKey key;                      // of the newest item
    Alert alert;                       // while it waits
    std::vector<std::string> others;   // incidents of the group that the waiting item tells too
  };
  struct Seen {                        // for inhibition
    std::string kind, job, node;
    Clock at;
  };
  struct Repeat {
    std::string incident;              // told last
    Clock at;
    std::uint64_t held = 0;            // since then
  };

  void tell(const Alert& alert, const SinkConfig& sink, const AlertRoute& route, const SilenceCheck& silenced, Clock now, AlertPlan& plan);
  void tell_first(const Alert& alert, const SinkConfig& sink, const AlertRoute& route, Clock now, AlertPlan& plan);
  bool tell_in_group(const Alert& alert, const SinkConfig& sink, Told& told, Clock now, AlertPlan& plan);
  void tell_again(const Alert& alert, const SinkConfig& sink, Told& told, Clock now, AlertPlan& plan);
  std::string echo_of(const Alert& alert, Clock now) const;
  void take_back_echoes(const Alert& alert, AlertPlan& plan, Clock now);
  void take_back(const std::pair<std::string, std::string>& key, HeldReason reason, const std::string& why, AlertPlan& plan, Clock now);
  const Told* waiting_message(const std::pair<std::string, std::string>& key, Clock now) const;
  void restore_others(const AlertItem& item, const Json& record, bool waiting);
  AlertItem item(const Alert& alert, const SinkConfig& sink, const Told& told, Clock not_before, std::uint64_t seen) const;
  void forget_old(Clock now);

  std::shared_ptr<const AlertConfig> config_;
  std::map<std::pair<std::string, std::string>, Told> told_;       // sink, incident
  std::map<std::pair<std::string, std::string>, std::string> groups_;  // sink, group -> incident whose item waits
  std::map<std::pair<std::string, std::string>, Repeat> repeats_;  // sink, job and cause
  std::map<std::string, Seen> seen_;                               // incident
  Clock swept_;
};

// Identity of what a person acts on: kind, root, summary, first fixes, verdict. Stable over restarts.
std::string alert_digest(const Json& incident);

}  // namespace triage::daemon
