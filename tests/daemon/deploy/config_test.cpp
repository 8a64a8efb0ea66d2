// The shipped configurations are read without a fault by the service's own reader; the example also with everything switched on.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "daemon/config/config.hpp"
#include "parsers/base/error_text.hpp"

using namespace triage;
namespace fs = std::filesystem;

namespace {

const fs::path kDeploy = fs::path(TRIAGE_SOURCE_DIR) / "deploy";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A # directly before a key or an item switches it off: this switches all of them on.
std::string all_on(const std::string& text) {
  std::istringstream in(text);
  std::string out, line;
  while (std::getline(in, line)) {
    const std::size_t at = line.find_first_not_of(' ');
    if (at != std::string::npos && line[at] == '#') {
      const std::size_t next = line.find_first_not_of(' ', at + 1);
      const bool prose = next != std::string::npos && next == at + 2;   // "# words"
      if (next != std::string::npos && !prose) line.erase(at, 1);
    }
    out += line + "\n";
  }
  return out;
}

std::string faults_of(const daemon::ReadConfig& read) {
  std::string out;
  for (const auto& fault : read.faults) out += parsers::error_text(fault) + "\n";
  return out;
}

void set_secrets() {
  for (const char* name : {"TRIAGED_ADMIN_TOKEN", "TRIAGED_READ_TOKEN", "TRIAGED_PUSH_TOKEN", "SLACK_TOKEN", "PAGERDUTY_KEY", "WEBHOOK_SECRET"})
    ::setenv(name, "a-secret-of-the-test-0123456789", 1);
}

}  // namespace

TEST_CASE("the example of the configuration is read as it is shipped, and says the defaults") {
  const auto shipped = daemon::read_service_config(read(kDeploy / "config/triaged.yaml"), "triaged.yaml");
  CHECK_MESSAGE(shipped.faults.empty(), faults_of(shipped));
  const daemon::ServiceConfig& config = shipped.config;
  CHECK(config.database == daemon::ServiceConfig().database);
  CHECK(config.sources.journal.on);
  CHECK(config.sources.patterns.empty());
  CHECK(config.alerts.sinks.empty());
  CHECK(config.http.listen.size() == 1);
  const auto plain = daemon::read_service_config("{}", "empty");
  CHECK(config.retention.age == plain.config.retention.age);
  CHECK(config.retention.sources_age == plain.config.retention.sources_age);
  CHECK(config.retention.incidents == plain.config.retention.incidents);
  CHECK(config.retention.bytes == plain.config.retention.bytes);
  CHECK(config.log_level == plain.config.log_level);
}

TEST_CASE("the example with every key switched on is read, and what it calls a default is one") {
  set_secrets();
  const auto all = daemon::read_service_config(all_on(read(kDeploy / "config/triaged.yaml")), "triaged.yaml");
  CHECK_MESSAGE(all.faults.empty(), faults_of(all));
  const auto plain = daemon::read_service_config("{}", "empty");
  CHECK(all.config.http.tokens.size() == 3);
  CHECK(all.config.http.limits == plain.config.http.limits);
  CHECK(all.config.http.upload_folder == plain.config.http.upload_folder);
  CHECK(all.config.desk == plain.config.desk);
  CHECK(all.config.workers == plain.config.workers);
  const daemon::SourceConfig &sources = all.config.sources, &defaults = plain.config.sources;
  CHECK(sources.patterns.size() >= 7);
  CHECK(sources.packed == defaults.packed);
  CHECK(sources.kernel_log == defaults.kernel_log);
  CHECK(sources.poll == defaults.poll);
  CHECK(sources.poll_only == defaults.poll_only);
  CHECK(sources.flush == defaults.flush);
  CHECK(sources.ignore_older == defaults.ignore_older);
  CHECK(sources.files == defaults.files);
  CHECK(sources.descriptors == defaults.descriptors);
  const daemon::AlertConfig &alerts = all.config.alerts, &quiet = plain.config.alerts;
  CHECK(alerts.sinks.size() == 3);
  CHECK(alerts.routes.size() == 2);
  CHECK(alerts.group_wait == quiet.group_wait);
  CHECK(alerts.group_interval == quiet.group_interval);
  CHECK(alerts.repeat_interval == quiet.repeat_interval);
  CHECK(alerts.give_up_after == quiet.give_up_after);
  CHECK(alerts.group_by == quiet.group_by);
}

TEST_CASE("a wrong key in the example is a fault: the test above can fail") {
  const auto wrong = daemon::read_service_config(read(kDeploy / "config/triaged.yaml") + "\nretentoin: {size: 1GiB}\n", "triaged.yaml");
  REQUIRE(wrong.faults.size() == 1);
  CHECK(faults_of(wrong).find("retention") != std::string::npos);
}

TEST_CASE("the configurations for Kubernetes are read") {
  set_secrets();
  for (const char* name : {"kubernetes/base/triaged.yaml", "kubernetes/overlays/example/triaged.yaml"}) {
    const auto config = daemon::read_service_config(read(kDeploy / name), name);
    CHECK_MESSAGE(config.faults.empty(), faults_of(config));
    CHECK_FALSE(config.config.sources.patterns.empty());
  }
}
