// From the outbox to the sinks: one thread a sink, so that a sink that is down or slow holds up no other. Each item is marked as being sent,
// on the disk, before it leaves; what a kill leaves in that state is told again only where the sink knows it again.
// Retries wait longer and longer, with jitter, and as long as the sink says (Retry-After); a sink that does not answer is tried with one
// message at a time. A channel gets one message a second. What cannot be told, or not for a day, is a dead letter: counted and kept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "daemon/alert/sink.hpp"

namespace triage::daemon {

// The outbox as the sender sees it (db/outbox.hpp behind it; tests have one in memory). Called by one thread at a time.
class AlertOutbox {
 public:
  virtual ~AlertOutbox() = default;
  // Waiting items of that sink whose time has come, oldest first; of one incident only the first that is not finished.
  virtual parsers::Result<std::vector<AlertItem>> due(const std::string& sink, parsers::TimePoint now, std::size_t limit) = 0;
  // Marked as being sent, on the disk. False: it is not waiting any more.
  virtual parsers::Result<bool> take(std::int64_t id, parsers::TimePoint now) = 0;
  virtual parsers::Status sent(std::int64_t id, const std::string& receipt, parsers::TimePoint now) = 0;
  virtual parsers::Status retry(std::int64_t id, parsers::TimePoint not_before, const std::string& error, parsers::TimePoint now) = 0;
  virtual parsers::Status dead(std::int64_t id, const std::string& error, parsers::TimePoint now) = 0;
  virtual parsers::Status uncertain(std::int64_t id, const std::string& error, parsers::TimePoint now) = 0;
  // Of the first message of the incident at the sink, as `sent` was given it.
  virtual parsers::Result<std::optional<AlertReceipt>> receipt(const std::string& sink, const std::string& incident) = 0;
  virtual parsers::Status forget_receipt(const std::string& sink, const std::string& incident) = 0;
};

// What can happen, for metrics and logs. Called from the sinks' threads; must not block.
struct SenderEvent {
  enum class What { sent, retry, dead, uncertain, outbox_fault };
  What what = What::sent;
  std::string sink, incident, event, why;
  std::chrono::milliseconds took{0};   // of the send
};
using SenderObserver = std::function<void(const SenderEvent&)>;

struct SinkStatus {
  std::string sink, type;
  std::uint64_t sent = 0, retries = 0, dead = 0, uncertain = 0;   // since the start
  std::uint64_t failures = 0;          // in a row
  std::string last_error;
  std::optional<parsers::TimePoint> last_sent, paused_until;
};

// Time as the sender sees it.
struct SenderClock {
  std::function<parsers::TimePoint()> now;
};
SenderClock system_clock();

// One sink's way through its items; no thread of its own. `step` does at most one send.
class SinkWorker {
 public:
  SinkWorker(SinkConfig config, std::chrono::seconds give_up_after, std::unique_ptr<AlertSink> sink, std::uint64_t seed);

  // Returns how long to wait before the next step. outbox_lock is held during calls of the outbox only.
  std::chrono::milliseconds step(AlertOutbox& outbox, std::mutex& outbox_lock, const HttpClient& client, const std::stop_token& stop, const SenderClock& clock, const SenderObserver& observer);
  SinkStatus status() const;
  const std::string& name() const { return config_.name; }

 private:
  struct Due {
    AlertItem item;
    std::string receipt;               // of the sink
    bool own = true;
  };
  parsers::Result<std::optional<Due>> next(AlertOutbox& outbox, std::mutex& outbox_lock, parsers::TimePoint now, std::chrono::milliseconds& wait);
  void settle(AlertOutbox& outbox, std::mutex& outbox_lock, const Due& due, const Json& body, Outcome outcome, parsers::TimePoint now, const std::stop_token& stop, const SenderObserver& observer,
              std::chrono::milliseconds took);
  std::chrono::milliseconds jitter(std::chrono::milliseconds time);

  SinkConfig config_;
  std::chrono::seconds give_up_after_;
  std::unique_ptr<AlertSink> sink_;
  std::mt19937_64 random_;
  std::optional<parsers::TimePoint> free_at_;   // of the channel: a sink has one
  std::optional<parsers::TimePoint> paused_until_;
  mutable std::mutex mutex_;           // guards status_
  SinkStatus status_;
};

class AlertSender {
 public:
  AlertSender(std::shared_ptr<const AlertConfig> config, AlertOutbox& outbox, SenderObserver observer = {}, SenderClock clock = system_clock());
  ~AlertSender();                      // stops
  AlertSender(const AlertSender&) = delete;
  AlertSender& operator=(const AlertSender&) = delete;

  // Something new lies in the outbox.
  void wake();
  // Ends within the client's grace and the outbox' own time. What is under way is recorded as it stands.
  void stop();
  std::vector<SinkStatus> status() const;

 private:
  void run(SinkWorker& worker, const std::stop_token& stop);

  std::shared_ptr<const AlertConfig> config_;
  AlertOutbox& outbox_;
  SenderObserver observer_;
  SenderClock clock_;
  HttpClient client_;
  std::mutex outbox_lock_, wake_lock_;
  std::condition_variable_any woken_;
  std::uint64_t wakes_ = 0;
  std::vector<std::unique_ptr<SinkWorker>> workers_;
  std::vector<std::jthread> threads_;
};

// Sends a made-up alert to one sink at once, past the outbox. What the sink said, or why it did not take it.
parsers::Result<std::string> send_test_alert(const AlertConfig& config, const std::string& sink, const HttpClient& client, parsers::TimePoint now);
// The incident that it tells of.
Json sample_incident();

}  // namespace triage::daemon
