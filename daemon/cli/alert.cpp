#include <cstdio>

#include "daemon/alert/sender.hpp"
#include "daemon/cli/command.hpp"
#include "daemon/config/config.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

int alert_test_command(const AlertTestCommand& command) {
  const ReadConfig read = read_config_file(command.config);
  if (!read.faults.empty()) {
    complain(read.faults);
    return kTrouble;
  }
  const HttpClient client(read.config.alerts.client);
  const auto said = send_test_alert(read.config.alerts, command.sink, client, wall_clock());
  if (!said.ok()) {
    complain(said.error());
    return kTrouble;
  }
  std::printf("%s took it: %s\n", command.sink.c_str(), parsers::visible(*said).c_str());
  return kNothingFound;
}

}  // namespace triage::daemon
