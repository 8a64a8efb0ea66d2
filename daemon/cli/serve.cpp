#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "daemon/cli/command.hpp"
#include "daemon/runtime/log.hpp"
#include "daemon/runtime/notify.hpp"
#include "daemon/runtime/service.hpp"
#include "parsers/base/error_text.hpp"

namespace triage::daemon {

namespace {

constexpr auto kDrain = std::chrono::milliseconds(9000);   // systemd and Kubernetes give more

void reload(Service& service, const Notify& notify) {
  notify.reloading();
  const std::vector<parsers::Error> faults = service.reload();
  for (const parsers::Error& fault : parsers::first_of_each_file(faults)) log_line(LogLevel::error, "reload refused: " + parsers::error_line(fault));
  if (faults.empty()) log_line(LogLevel::info, "configuration and rules were read anew");
  notify.ready(service.status_line());
}

// The soft limit is low for the sake of programs that use select(); this one does not.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// glibc keeps memory apart for up to eight arenas a core, each with what was given back to it: many cores would mean hundreds of MiB at rest.
void bound_arenas() { (void)::mallopt(M_ARENA_MAX, 4); }

int check(const ReadConfig& read) {
  if (!knowledge_or_complain(read.config.rules)) return kTrouble;
  std::printf("the configuration is well formed: %zu patterns of files, %zu sinks of alerts\n", read.config.sources.patterns.size(), read.config.alerts.sinks.size());
  return kNothingFound;
}

}  // namespace

int serve_command(const ServeCommand& command) {
  ReadConfig read = read_config_file(command.config);
  if (!read.faults.empty()) {
    complain(read.faults);
    return kTrouble;
  }
  if (command.check) return check(read);

  // Before the first thread: all of them leave signals to this one.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  ::umask(0027);   // the database and uploads hold lines of logs
  raise_descriptor_limit();
  bound_arenas();

  const Notify notify;
  auto started = Service::start(std::move(read.config), command.config);
  if (!started.ok()) {
    complain(started.error());
    return kTrouble;
  }
  Service& service = **started;
  std::string where;
  for (const int port : service.ports()) where += (where.empty() ? ", listening on port " : ", ") + std::to_string(port);
  log_line(LogLevel::info, "triaged " + program_version() + " is running" + where);
  notify.ready(service.status_line());

  const auto tick = std::min<std::chrono::milliseconds>(notify.watchdog_every().value_or(std::chrono::seconds(1)), std::chrono::seconds(1));
  const timespec wait{static_cast<time_t>(tick.count() / 1000), static_cast<long>(tick.count() % 1000) * 1'000'000};
  std::string told;
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal == SIGTERM || signal == SIGINT) break;
    if (signal == SIGHUP || service.wants_reload()) reload(service, notify);
    if (service.health().alive) notify.watchdog();
    std::string status = service.status_line();
    if (status != told) notify.status(status);
    told = std::move(status);
  }
  log_line(LogLevel::info, "stopping");
  notify.stopping();
  const bool clean = service.stop(kDrain);
  log_line(LogLevel::info, clean ? "stopped" : "stopped; a file system that does not answer was left alone");
  if (!clean) std::_Exit(kNothingFound);   // a thread still waits in it: nothing that it uses may be taken down
  return kNothingFound;
}

}  // namespace triage::daemon
