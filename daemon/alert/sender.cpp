#include "daemon/alert/sender.hpp"

#include "daemon/runtime/wall_clock.hpp"

#include <algorithm>
#include <system_error>

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::Status;
using parsers::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;
using What = SenderEvent::What;

namespace {

constexpr std::size_t kLook = 16;                    // due items looked at in a step
constexpr milliseconds kIdle{1000};                  // without a wake: what comes due by its time
constexpr milliseconds kFirstRetry{2'000}, kLongestRetry{300'000};   // of an item
constexpr milliseconds kFirstPause{1'000}, kLongestPause{60'000};    // of a sink
constexpr milliseconds kOutboxFault{1'000};          // before the outbox is asked again
constexpr std::size_t kErrorUnits = 500;

milliseconds doubled(milliseconds first, milliseconds longest, std::uint64_t times) {
  milliseconds out = first;
  for (std::uint64_t i = 0; i < times && out < longest; ++i) out *= 2;
  return std::min(out, longest);
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

milliseconds until(TimePoint at, TimePoint now) { return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(at - now)); }

// The receipt that the outbox keeps: the sink's own, and what the policy wants to know again.
std::string wrap(const std::string& sink_receipt, const Json& body) {
  const auto policy = body.is_object() ? body.find("policy") : body.end();
  Json out = {{"sink", sink_receipt}};
  if (policy != body.end()) out["policy"] = *policy;
  return json_text(out, -1);
}

}  // namespace

SenderClock system_clock() {
  return {wall_clock};
}

SinkWorker::SinkWorker(SinkConfig config, seconds give_up_after, std::unique_ptr<AlertSink> sink, std::uint64_t seed)
    : config_(std::move(config)), give_up_after_(give_up_after), sink_(std::move(sink)), random_(seed) {
  status_.sink = config_.name;
  status_.type = config_.type();
}

SinkStatus SinkWorker::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

// Between half and all of the time.
milliseconds SinkWorker::jitter(milliseconds time) {
  if (time.count() <= 1) return time;
  return milliseconds(std::uniform_int_distribution<std::int64_t>(time.count() / 2, time.count())(random_));
}

Result<std::optional<SinkWorker::Due>> SinkWorker::next(AlertOutbox& outbox, std::mutex& outbox_lock, TimePoint now, milliseconds& wait) {
  const std::lock_guard lock(outbox_lock);
  TRIAGE_TRY(auto items, outbox.due(config_.name, now, kLook));
  for (AlertItem& item : items) {
    if (free_at_ && *free_at_ > now && *free_at_ <= now + config_.every) {   // a clock that was set back does not hold us
      wait = std::min(wait, until(*free_at_, now));
      break;
    }
    TRIAGE_TRY(const bool taken, outbox.take(item.id, now));
    if (!taken) continue;
    Due due{std::move(item), "", true};
    const Json body = Json::parse(due.item.body, nullptr, false);
    // An incident that was told with others: their message is its own.
    std::string thread = due.item.incident;
    if (const auto policy = body.is_object() ? body.find("policy") : body.end(); body.is_object() && policy != body.end())
      if (const std::string named = text_of(*policy, "thread"); !named.empty()) thread = named;
    for (const std::string& incident : {due.item.incident, thread}) {
      auto receipt = outbox.receipt(config_.name, incident);
      if (!receipt.ok() || !*receipt) continue;
      due.receipt = text_of(Json::parse((*receipt)->receipt, nullptr, false), "sink");
      due.own = incident == due.item.incident;
      if (!due.receipt.empty()) break;
    }
    return std::optional<Due>(std::move(due));
  }
  return std::optional<Due>();
}

milliseconds SinkWorker::step(AlertOutbox& outbox, std::mutex& outbox_lock, const HttpClient& client, const std::stop_token& stop, const SenderClock& clock, const SenderObserver& observer) {
  const TimePoint begin = clock.now();
  if (paused_until_) {
    // No pause is longer than an hour: one that seems so was made before the clock was set back.
    if (begin < *paused_until_ && *paused_until_ - begin <= std::chrono::hours(1)) return std::min(kIdle, until(*paused_until_, begin));
    paused_until_.reset();
  }
  milliseconds wait = kIdle;
  auto due = next(outbox, outbox_lock, begin, wait);
  if (!due.ok()) {
    const std::string why = due.error().message();
    {
      const std::lock_guard lock(mutex_);
      status_.last_error = why;
    }
    if (observer) observer({What::outbox_fault, config_.name, "", "", why, {}});
    return kOutboxFault;
  }
  if (!*due) return wait;
  const Due& one = **due;
  const Json body = Json::parse(one.item.body, nullptr, false);
  Outcome outcome;
  if (!body.is_object()) {
    outcome = Outcome::refused("the body of the item is damaged");
  } else {
    try {
      outcome = sink_->send({one.item, body, one.receipt, one.own, idempotency_key(one.item), begin}, client, stop);
    } catch (const std::exception& problem) {      // out of memory, or a library's own
      outcome = Outcome::again(std::string("making the message failed: ") + problem.what(), std::nullopt, false);
    }
  }
  const TimePoint end = clock.now();
  free_at_ = end + config_.every;
  settle(outbox, outbox_lock, one, body, std::move(outcome), end, stop, observer, std::chrono::duration_cast<milliseconds>(end - begin));
  return milliseconds(0);
}

void SinkWorker::settle(AlertOutbox& outbox, std::mutex& outbox_lock, const Due& due, const Json& body, Outcome outcome, TimePoint now, const std::stop_token& stop,
                        const SenderObserver& observer, milliseconds took) {
  using Kind = Outcome::Kind;
  if (config_.idempotent() || config_.repeat_in_doubt)
    if (outcome.kind == Kind::doubt) outcome.kind = Kind::retry;
  outcome.why = cut_text(clean_line(mask_text(outcome.why, {})), kErrorUnits);
  TimePoint again = now;
  if (outcome.kind == Kind::retry) {
    again = now + (outcome.after ? std::chrono::duration_cast<milliseconds>(*outcome.after) : jitter(doubled(kFirstRetry, kLongestRetry, static_cast<std::uint64_t>(std::max(0, due.item.tries)))));
    if (now - due.item.created_at > give_up_after_) outcome = Outcome::refused("given up after " + std::to_string(give_up_after_.count() / 3600) + " h: " + outcome.why);
  }
  {
    const std::lock_guard lock(mutex_);
    if (outcome.kind == Kind::sent) {
      ++status_.sent;
      status_.failures = 0;
      status_.last_sent = now;
      status_.last_error.clear();
    } else {
      status_.last_error = outcome.why;
      status_.retries += outcome.kind == Kind::retry;
      status_.dead += outcome.kind == Kind::dead;
      status_.uncertain += outcome.kind == Kind::doubt;
      if (outcome.kind == Kind::retry && outcome.whole_sink && !stop.stop_requested()) {
        // One message at a time finds out whether the sink is back.
        const milliseconds pause = outcome.after ? std::chrono::duration_cast<milliseconds>(*outcome.after) : jitter(doubled(kFirstPause, kLongestPause, status_.failures));
        ++status_.failures;
        paused_until_ = now + pause;
      }
    }
    status_.paused_until = paused_until_;
  }
  // What has happened outside cannot be undone: the record is tried until it stands, or the service stops.
  const auto record = [&]() -> Status {
    const std::lock_guard lock(outbox_lock);
    if (outcome.gone) (void)outbox.forget_receipt(config_.name, due.item.incident);
    switch (outcome.kind) {
      case Kind::sent: return outbox.sent(due.item.id, wrap(outcome.receipt.empty() ? due.receipt : outcome.receipt, body), now);
      case Kind::retry: return outbox.retry(due.item.id, again, outcome.why, now);
      case Kind::dead: return outbox.dead(due.item.id, outcome.why, now);
      case Kind::doubt: return outbox.uncertain(due.item.id, outcome.why, now);
    }
    return parsers::done();
  };
  for (Status status = record(); !status.ok(); status = record()) {
    if (observer) observer({What::outbox_fault, config_.name, due.item.incident, due.item.event, status.error().message(), {}});
    for (int i = 0; i < 10 && !stop.stop_requested(); ++i) std::this_thread::sleep_for(kOutboxFault / 10);
    if (stop.stop_requested()) {
      (void)record();
      break;
    }
  }
  if (!observer) return;
  const What what = outcome.kind == Kind::sent ? What::sent : outcome.kind == Kind::retry ? What::retry : outcome.kind == Kind::dead ? What::dead : What::uncertain;
  observer({what, config_.name, due.item.incident, due.item.event, outcome.why, took});
}

AlertSender::AlertSender(std::shared_ptr<const AlertConfig> config, AlertOutbox& outbox, SenderObserver observer, SenderClock clock)
    : config_(std::move(config)), outbox_(outbox), observer_(std::move(observer)), clock_(std::move(clock)), client_(config_->client) {
  std::random_device seed;
  for (const SinkConfig& sink : config_->sinks) workers_.push_back(std::make_unique<SinkWorker>(sink, config_->give_up_after, make_sink(sink), seed()));
  for (const auto& worker : workers_)
    threads_.emplace_back([this, one = worker.get()](const std::stop_token& stop) { run(*one, stop); });
}

AlertSender::~AlertSender() { stop(); }

void AlertSender::wake() {
  {
    const std::lock_guard lock(wake_lock_);
    ++wakes_;
  }
  woken_.notify_all();
}

void AlertSender::stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  woken_.notify_all();
  threads_.clear();                            // joins
}

std::vector<SinkStatus> AlertSender::status() const {
  std::vector<SinkStatus> out;
  for (const auto& worker : workers_) out.push_back(worker->status());
  return out;
}

void AlertSender::run(SinkWorker& worker, const std::stop_token& stop) {
  std::uint64_t seen = 0;
  while (!stop.stop_requested()) {
    {
      const std::lock_guard lock(wake_lock_);
      seen = wakes_;
    }
    milliseconds wait = kOutboxFault;
    try {
      wait = worker.step(outbox_, outbox_lock_, client_, stop, clock_, observer_);
    } catch (const std::exception& problem) {      // thread entry: nothing leaves it
      if (observer_) observer_({What::outbox_fault, worker.name(), "", "", problem.what(), {}});
    }
    if (wait.count() <= 0) continue;
    std::unique_lock lock(wake_lock_);
    woken_.wait_for(lock, stop, wait, [&] { return wakes_ != seen; });
  }
}

Json sample_incident() {
  return {{"id", "test-alert"},
          {"fingerprint", "v1:test"},
          {"kind", "gpu.oom.capacity"},
          {"phase", "forward"},
          {"summary", "This is a test of the alert sink: rank 2 asked for 2.00 GiB and 1.20 of 79.15 GiB were free."},
          {"job", "triage-alert-test"},
          {"attempt", 1},
          {"reasons", {"a made-up incident, nothing has failed"}},
          {"root", {{"source", "train.log"}, {"line", 123}, {"rank", 2}, {"device", 0}, {"node", nullptr}, {"step", 4}, {"text", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."}}},
          {"ledger", {{"capacity_bytes", 84987740979}, {"free_bytes", 1288490188}, {"tried_bytes", 2147483648}, {"allocated_bytes", 80000000000}}},
          {"fixes",
           {{{"id", "recompute.full"},
             {"title", "Recompute every layer (gradient checkpointing)"},
             {"apply", {{{"framework", "megatron-lm"}, {"set", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"}}}},
             {"saving_bytes", {{"low", 20000000000}, {"mid", 24000000000}, {"high", 26000000000}}},
             {"predicted_peak_bytes", 58147483648},
             {"fits", true},
             {"cost", {{"step_time_percent", {{"low", 18.0}, {"high", 33.0}}}}},
             {"basis", "MODELLED"}}}}};
}

Result<std::string> send_test_alert(const AlertConfig& config, const std::string& name, const HttpClient& client, TimePoint now) {
  const SinkConfig* sink = config.sink(name);
  if (sink == nullptr) {
    std::string known;
    for (const SinkConfig& one : config.sinks) known += (known.empty() ? "" : ", ") + one.name;
    return Error(ErrorCode::not_found, "there is no sink '" + name + "'").help(known.empty() ? "the configuration has no sinks" : "known: " + known);
  }
  Alert alert = make_alert(sample_incident(), "opened", 1, "info", now, {config.mask, config.link});
  alert.incident += "-" + std::to_string(std::chrono::duration_cast<seconds>(now.time_since_epoch()).count());   // not taken for an earlier test
  alert.incident_json["id"] = alert.incident;
  AlertItem item;
  item.sink = sink->name;
  item.channel = sink->channel();
  item.incident = alert.incident;
  item.event = alert.event;
  item.revision = 1;
  item.not_before = now;
  const Json body = alert_body(alert);
  const std::string receipt;
  const Outcome outcome = make_sink(*sink)->send({item, body, receipt, true, idempotency_key(item), now}, client, {});
  if (outcome.kind == Outcome::Kind::sent) return "sent to " + sink->name + " (" + std::string(sink->type()) + ")";
  const bool refused = outcome.kind == Outcome::Kind::dead;
  return Error(refused ? ErrorCode::conflict : ErrorCode::unavailable, "the sink '" + name + "' did not take the message")
      .because(cut_text(clean_line(mask_text(outcome.why, {})), kErrorUnits))
      .help(refused ? "check address, token and channel of the sink" : outcome.kind == Outcome::Kind::doubt ? "it may have arrived: look there" : "");
}

}  // namespace triage::daemon
