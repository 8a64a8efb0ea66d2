#include "daemon/runtime/service.hpp"

#include <malloc.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/alert/sender.hpp"
#include "daemon/alert/store_outbox.hpp"
#include "daemon/http/api.hpp"
#include "daemon/http/server.hpp"
#include "daemon/runtime/alert_desk.hpp"
#include "daemon/runtime/desk_thread.hpp"
#include "daemon/runtime/housekeeping.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/push_intake.hpp"
#include "daemon/runtime/service_api.hpp"
#include "daemon/runtime/service_health.hpp"
#include "daemon/runtime/system_intake.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "daemon/runtime/watching.hpp"
#include "daemon/tail/rule_files.hpp"
#include "parsers/base/error_text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using parsers::TimePoint;

namespace {

constexpr std::size_t kNews = 16;                    // portions of news that may wait for the desk: some MB
constexpr std::uint64_t kTrim = 2000;                // Intakes let go of: some 20 MB
constexpr std::int64_t kOutboxRows = 5000;           // that the policy is told of at the start

std::string node_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "";
}

LoadedKnowledge load_rules(const ServiceConfig& config) {
  return load_rule_files(rule_paths_or_site(config.rules), {true, false});
}

void log_errors(LogLevel level, const std::vector<Error>& errors) {
  for (const Error& error : parsers::first_of_each_file(errors)) log_line(level, parsers::error_line(error));
}

}  // namespace

// What the desk is told of the whole configuration: `desk` alone is the section `incidents`.
DeskOptions desk_options(const ServiceConfig& config) {
  DeskOptions out = config.desk;
  if (config.mask_stored) out.mask = config.alerts.mask;
  return out;
}

struct Service::Impl {
  Impl(ServiceConfig wanted, std::string path, db::LiveStore opened, std::shared_ptr<const Knowledge> knowledge)
      : config(std::move(wanted)),
        config_path(std::move(path)),
        rules{std::move(knowledge), 1},
        alert_config(std::make_shared<const AlertConfig>(config.alerts)),
        store(std::move(opened)),
        queries(config.database),
        hub(std::to_string(started_at.time_since_epoch().count())),
        alerts(alert_config, [this](const char* reason) { registry.counter(metrics::kAlertsSilenced, {reason}).add(); }),
        queue(kNews),
        desk(rules.knowledge, store, desk_options(config), [this](const IncidentChange& change, TimePoint now) { return alerts.plan(change, now); },
             [this](const IncidentChange& change) { observe(change); },
             [this](const signatures::SourceInfo& dump) { watching.read_again(dump); }),
        desk_thread(desk, queue, wall_clock, [this](std::chrono::microseconds took) { commit_seconds.observe(static_cast<double>(took.count()) / 1e6); }),
        push(rules, queue, load_row(), load_spool(), wall_clock, config.desk.default_year),
        system(rules, queue, load_spool(), wall_clock, config.desk.default_year),
        watching(rules.knowledge, config.sources, config.workers, {&queue, load_row(), load_spool(), wall_clock, config.desk.default_year,
                                                             [this](std::chrono::microseconds took) { discovery_seconds.observe(static_cast<double>(took.count()) / 1e6); }}),
        commit_seconds(registry.histogram(metrics::kCommitSeconds)),
        diagnosis_seconds(registry.histogram(metrics::kDiagnosisSeconds)),
        discovery_seconds(registry.histogram(metrics::kDiscoverySeconds)) {}

  // ---- what others ask, from any thread

  RulesInForce current() const {
    const std::lock_guard guard(lock);
    return rules;
  }
  Worker::LoadSpool load_spool() {
    return [this](const std::string& name, std::uint64_t generation) {
      auto found = queries.with([&](db::Query& query) -> Result<std::vector<SpoolLine>> {
        TRIAGE_TRY(const auto row, query.watched(name));
        if (!row || row->generation != generation) return std::vector<SpoolLine>();
        return query.spool(row->id);
      });
      return found.ok() ? std::move(*found) : std::vector<SpoolLine>();
    };
  }
  Worker::LoadRow load_row() {
    return [this](const std::string& name) { return queries.with([&](db::Query& query) { return query.watched(name); }); };
  }
  std::string severity(const std::string& kind) const {
    const std::string stated = alerts_in_force()->severity_of(kind);
    return stated.empty() ? std::string(default_severity(kind)) : stated;
  }
  std::shared_ptr<const AlertConfig> alerts_in_force() const {
    const std::lock_guard guard(lock);
    return alert_config;
  }

  // ---- on the desk's thread

  void observe(const IncidentChange& change) {
    const Json incident = Json::parse(change.answer, nullptr, false);
    const auto text = [&incident](const char* key) {
      const auto at = incident.is_object() ? incident.find(key) : incident.end();
      return at != incident.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    const std::shared_ptr<const AlertConfig> alerting = alerts_in_force();
    const std::string kind = text("kind"), summary = mask_text(text("summary"), alerting->mask);
    hub.publish("incident." + change.event, json_text(Json{{"id", change.tracked.id}, {"revision", change.tracked.revision}, {"kind", kind}, {"job", change.tracked.job},
                                                           {"summary", summary}, {"severity", severity(kind)}}, -1));
    if (change.event == "opened") {
      registry.counter(metrics::kIncidents, {kind}).add();
      log_line(LogLevel::info, "incident " + change.tracked.id + " of " + change.tracked.job + ": " + summary);
    }
    if (change.since) diagnosis_seconds.observe(std::chrono::duration<double>(wall_clock() - *change.since).count());
    wake_sender();
  }
  void wake_sender() {
    const std::lock_guard guard(sender_lock);
    if (sender) sender->wake();
  }

  void start_sender() {
    const std::lock_guard guard(sender_lock);
    sender.reset();
    const std::shared_ptr<const AlertConfig> alerting = alerts_in_force();
    if (!outbox || alerting->sinks.empty()) return;
    sender = std::make_unique<AlertSender>(alerting, *outbox, [this](const SenderEvent& event) { sent(event); });
  }
  void sent(const SenderEvent& event) {
    using What = SenderEvent::What;
    const char* const result = event.what == What::sent ? "sent" : event.what == What::retry ? "retry" : event.what == What::dead ? "dead" : "uncertain";
    if (event.what == What::outbox_fault) {
      log_line(LogLevel::error, "outbox: " + event.why);
      return;
    }
    registry.counter(metrics::kAlerts, {event.sink, result}).add();
    registry.histogram(metrics::kAlertSeconds, {event.sink}).observe(static_cast<double>(event.took.count()) / 1e3);
    if (event.what != What::sent) log_line(LogLevel::warn, "alert to " + event.sink + " (" + event.incident + ", " + event.event + "): " + result + ": " + event.why);
  }

  std::vector<std::string> watched_files() const {
    std::vector<std::string> out;
    if (!config_path.empty()) out.push_back(config_path);
    std::vector<std::string> paths;
    {
      const std::lock_guard guard(lock);
      paths = rule_paths_or_site(config.rules);
    }
    for (const std::string& path : paths) {
      out.push_back(path);
      std::error_code code;
      for (auto entry = std::filesystem::directory_iterator(path, code); !code && entry != std::filesystem::directory_iterator(); entry.increment(code)) out.push_back(entry->path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  HealthInputs health_inputs() const;

  const TimePoint started_at = wall_clock();
  mutable std::mutex lock;                           // of config.rules, rules, alert_config, refused
  ServiceConfig config;
  const std::string config_path;
  RulesInForce rules;
  std::shared_ptr<const AlertConfig> alert_config;
  std::string refused, restart;                      // why the last reload was refused; what of it needs a restart
  std::atomic<bool> files_changed = false, running = false, stopping = false;

  db::LiveStore store;                               // of the desk's thread
  QueryPool queries;
  metrics::Registry registry;
  EventHub hub;
  AlertDesk alerts;                                  // of the desk's thread
  NewsQueue queue;
  Desk desk;
  DeskThread desk_thread;
  std::unique_ptr<StoreOutbox> outbox;
  std::mutex sender_lock;
  std::unique_ptr<AlertSender> sender;
  PushIntake push;
  SystemIntake system;
  Watching watching;
  metrics::Histogram& commit_seconds;
  metrics::Histogram& diagnosis_seconds;
  metrics::Histogram& discovery_seconds;
  std::unique_ptr<Housekeeping> housekeeping;
  std::unique_ptr<ServiceApi> api_view;
  std::unique_ptr<api::Routes> routes;
  std::unique_ptr<api::Server> server;
};

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Service::~Service() {
  if (impl_) (void)stop(std::chrono::seconds(9));
}

Result<std::unique_ptr<Service>> Service::start(ServiceConfig config, std::string config_path) {
  config.desk.default_year = this_year();
  set_log_level(config.log_level);
  LoadedKnowledge loaded = load_rules(config);
  log_errors(LogLevel::warn, loaded.notes);
  if (!loaded.knowledge) {
    log_errors(LogLevel::error, loaded.faults);
    return loaded.faults.empty() ? Error(ErrorCode::internal, "the rules could not be loaded") : std::move(loaded.faults.front());
  }
  std::error_code code;
  const auto folder = std::filesystem::path(config.database).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, code);
  if (!config.http.upload_folder.empty()) std::filesystem::create_directories(config.http.upload_folder, code);
  db::LiveOptions options;
  options.move_damaged_aside = config.move_damaged_aside;
  options.now = wall_clock();
  TRIAGE_TRY(db::LiveStore store, db::LiveStore::open(config.database, options));
  if (!store.moved_aside().empty()) log_line(LogLevel::error, "the database was damaged; it was moved to " + store.moved_aside() + " and a new one begun");

  auto impl = std::make_unique<Impl>(std::move(config), std::move(config_path), std::move(store), std::move(loaded.knowledge));
  Impl& it = *impl;
  TRIAGE_TRY(const std::vector<db::WatchedRow> rows, it.store.watched());
  TRIAGE_TRY(db::Outbox outbox, db::Outbox::open(it.config.database));
  TRIAGE_TRY(const db::Recovered recovered, outbox.recover(idempotent_sinks(*it.alerts_in_force()), wall_clock()));
  if (recovered.uncertain > 0) log_line(LogLevel::warn, std::to_string(recovered.uncertain) + " alerts were being sent when the service ended; whether they arrived is not known (triage status)");
  it.outbox = std::make_unique<StoreOutbox>(std::move(outbox));
  TRIAGE_TRY(std::vector<db::OutboxItem> told, it.queries.with([](db::Query& query) {
    db::OutboxQuery all;
    all.limit = kOutboxRows;
    return query.outbox(all);
  }));
  it.alerts.restore(std::move(told));
  TRIAGE_CHECK(it.desk.restore(wall_clock()));
  it.push.restore(rows);
  (void)it.rules.knowledge->fixes();               // read now, not while the first failure waits

  ServiceFacts facts;
  facts.now = wall_clock;
  facts.knowledge = [&it] { return it.current().knowledge; };
  facts.health = [&it] { return health_of(it.health_inputs(), wall_clock()); };
  facts.severity = [&it](const std::string& kind) { return it.severity(kind); };
  facts.silences_changed = [&it] { it.housekeeping->look(); };
  facts.outbox_changed = [&it] { it.wake_sender(); };
  facts.files = &it.watching.files();
  facts.default_year = it.config.desk.default_year;
  it.api_view = std::make_unique<ServiceApi>(it.config.database, std::move(facts), it.config.alerts.mask, it.hub);

  Housekeeping::Parts parts;
  parts.database = it.config.database;
  parts.clock = wall_clock;
  parts.watched_files = [&it] { return it.watched_files(); };
  parts.files_changed = [&it] { it.files_changed = true; };
  parts.silences_changed = [&it](std::vector<db::Silence> silences) {
    it.desk_thread.call([&it, silences = std::move(silences)](Desk& desk) mutable { desk.plan(it.alerts.silence(std::move(silences), wall_clock())); });
  };
  parts.every_second = [&it, trimmed = std::uint64_t{0}]() mutable {
    it.watching.close_idle();
    // What the Intakes of idle files gave back goes to the system. It stops all threads for a moment, so only when there is much of it.
    if (const std::uint64_t rested = it.watching.rested(); rested >= trimmed + kTrim) {
      (void)::malloc_trim(0);
      trimmed = rested;
    }
  };
  it.housekeeping = std::make_unique<Housekeeping>(std::move(parts), it.config.retention);
  it.registry.before_scrape([&it] { set_gauges(it.registry, it.health_inputs(), wall_clock()); });

  if (it.config.http.enabled) {
    it.routes = std::make_unique<api::Routes>(api::make_routes({*it.api_view, it.push, it.registry, it.config.http, api::page_files()}));
    TRIAGE_TRY(it.server, api::Server::start(it.config.http, *it.routes, it.hub, it.registry));
  }
  // The first look at silences comes before the first news, so that nothing silenced is told.
  it.housekeeping->start();
  it.desk_thread.start();
  it.start_sender();
  const std::string node = node_name();
  const auto row_of = [&rows](const std::string& kind) {
    std::optional<db::WatchedRow> found;
    for (const db::WatchedRow& row : rows)
      if (row.kind == kind) found = row;
    return found;
  };
  if (it.config.sources.kernel_log) {
    const auto row = row_of("kmsg");
    it.system.add(make_kmsg_source(make_kmsg_device("/dev/kmsg"), row ? row->cursor : "", boot_identity(), node), "kmsg", node, row);
  }
  if (it.config.sources.journal.on) {
    const auto row = row_of("journal");
    JournalOptions journal;
    journal.kernel = it.config.sources.journal.kernel;
    journal.units = it.config.sources.journal.units;
    it.system.add(make_journal_source(std::move(journal), row ? row->cursor : ""), "journal", node, row);
  }
  it.system.start();
  std::vector<std::string> known;
  for (const db::WatchedRow& row : rows)
    if (row.kind.empty() && !row.ended) known.push_back(row.name);
  it.watching.start(std::move(known));
  it.running = true;
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

std::vector<int> Service::ports() const { return impl_->server ? impl_->server->ports() : std::vector<int>(); }

bool Service::wants_reload() { return impl_->files_changed.exchange(false); }

std::vector<Error> Service::reload() {
  Impl& it = *impl_;
  ServiceConfig wanted;
  std::vector<Error> faults;
  {
    const std::lock_guard guard(it.lock);
    wanted = it.config;
  }
  if (!it.config_path.empty()) {
    ReadConfig read = read_config_file(it.config_path);
    faults = std::move(read.faults);
    wanted = std::move(read.config);
    wanted.desk.default_year = it.config.desk.default_year;
  }
  LoadedKnowledge loaded;
  if (faults.empty()) {
    loaded = load_rules(wanted);
    faults = std::move(loaded.faults);
  }
  const char* const result = faults.empty() ? "applied" : "refused";
  it.registry.counter(metrics::kReloads, {"configuration", result}).add();
  if (!faults.empty()) {
    const std::lock_guard guard(it.lock);
    it.refused = (faults.size() == 1 ? "" : std::to_string(faults.size()) + " faults, the first: ") + parsers::error_line(faults.front());
    return faults;
  }
  const std::string restart = needs_restart(it.config, wanted);
  RulesInForce rules = it.current();
  const bool new_rules = loaded.knowledge->rules->hash() != rules.knowledge->rules->hash();
  if (new_rules) rules = {loaded.knowledge, rules.version + 1};
  auto alert_config = std::make_shared<const AlertConfig>(wanted.alerts);
  {
    const std::lock_guard guard(it.lock);
    it.rules = rules;
    it.alert_config = alert_config;
    it.refused.clear();
    it.restart = restart;
    it.config.rules = wanted.rules;
    it.config.retention = wanted.retention;
    it.config.log_level = wanted.log_level;
    it.config.alerts = wanted.alerts;
    it.config.sources = wanted.sources;
  }
  set_log_level(wanted.log_level);
  if (new_rules) {
    it.watching.use(rules.knowledge);
    it.push.use(rules);
    it.system.use(rules);
    it.desk_thread.call([knowledge = rules.knowledge](Desk& desk) { desk.use(knowledge); });
  }
  it.desk_thread.call([&it, alert_config](Desk&) { it.alerts.configure(alert_config); });
  it.start_sender();
  it.housekeeping->apply(wanted.retention);
  it.watching.apply(wanted.sources);
  if (it.server)
    if (const auto tls = it.server->reload_tls(); !tls.ok()) log_line(LogLevel::error, parsers::error_line(tls.error()));
  return {};
}

bool Service::stop(std::chrono::milliseconds time) {
  Impl& it = *impl_;
  if (it.stopping.exchange(true)) return true;
  const auto until = std::chrono::steady_clock::now() + time;
  const auto left = [until] { return std::max(std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()), std::chrono::milliseconds(0)); };
  if (it.server) it.server->stop();
  const bool clean = it.watching.stop(std::min<std::chrono::milliseconds>(left() / 2, std::chrono::seconds(3)));
  // What a full queue keeps waiting is let go: it is read again at the next start.
  it.system.stop();
  if (!it.desk_thread.stop(left() / 2)) log_line(LogLevel::warn, "the store did not take everything; what is missing is read again at the next start");
  if (it.housekeeping) it.housekeeping->stop();
  const std::lock_guard guard(it.sender_lock);
  if (it.sender) it.sender->stop();
  return clean;
}

HealthInputs Service::Impl::health_inputs() const {
  HealthInputs out;
  out.version = program_version();
  out.started_at = started_at;
  out.running = running && !stopping;
  out.watching = watching.state(wall_clock());
  out.figures = housekeeping ? housekeeping->figures() : StoreFigures();
  out.desk = &desk_thread.counts();
  out.desk_trouble = desk_thread.trouble();
  out.queue = queue.size();
  out.queue_limit = kNews;
  out.queue_waited = queue.waited();
  out.system_trouble = system.trouble();
  {
    const std::lock_guard guard(lock);
    out.refused = refused;
    out.restart = restart;
    out.rules = rules.knowledge->rules->signatures().size();
    out.rules_hash = rules.knowledge->rules->hash();
  }
  return out;
}

api::Health Service::health() const { return health_of(impl_->health_inputs(), wall_clock()); }

std::string Service::status_line() const {
  const HealthInputs in = impl_->health_inputs();
  const api::Health now = health_of(in, wall_clock());
  std::string out = "watching " + std::to_string(in.watching.files) + " files, " + std::to_string(in.desk->open_incidents.load()) + " open incidents";
  for (const api::HealthPart& part : now.parts)
    if (!part.ok) out += "; " + part.part + ": " + part.why;
  return out;
}

}  // namespace triage::daemon
