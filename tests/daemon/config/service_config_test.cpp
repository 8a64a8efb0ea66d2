// The configuration of the service: all faults at once, and what a reload cannot change.
#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/config/config.hpp"

using namespace triage;

TEST_CASE("configuration: every fault is told, with its line") {
  const daemon::ReadConfig read = daemon::read_service_config(
      "database: {path: /tmp/x.db, move_aside: true}\n"
      "sources: {files: \"/logs/{job}.log\", pol: 1s}\n"
      "retention: {incidents: 3}\n"
      "incidents: {close_after: soon}\n"
      "workers: 1000\n"
      "log: {level: loud}\n"
      "nonsense: 1\n",
      "triaged.yaml");
  std::vector<int> lines;
  for (const parsers::Error& fault : read.faults) {
    REQUIRE(fault.place());
    CHECK(fault.place()->file == "triaged.yaml");
    REQUIRE(fault.place()->line);
    lines.push_back(static_cast<int>(*fault.place()->line));
  }
  for (int line = 1; line <= 7; ++line) {
    CAPTURE(line);
    CHECK(std::count(lines.begin(), lines.end(), line) >= 1);
  }
}

TEST_CASE("configuration: what is left out has its default, and an empty file is one") {
  const daemon::ReadConfig read = daemon::read_service_config("database: /srv/t/triaged.db\n", "triaged.yaml");
  CHECK(read.faults.empty());
  CHECK(read.config.http.upload_folder == "/srv/t/uploads");
  CHECK(read.config.retention.incidents == 100'000);
  CHECK(daemon::read_service_config("", "triaged.yaml").faults.empty());
  CHECK_FALSE(read.config.mask_stored);
  CHECK(daemon::read_service_config("database: {path: /srv/t/triaged.db, mask: true}\n", "triaged.yaml").config.mask_stored);
}

TEST_CASE("configuration: a reload names what it cannot change") {
  const auto config = [](const std::string& text) {
    daemon::ReadConfig read = daemon::read_service_config("database: /srv/t/triaged.db\n" + text, "triaged.yaml");
    REQUIRE(read.faults.empty());
    return read.config;
  };
  const daemon::ServiceConfig running = config("");
  struct Row {
    const char* text;
    const char* wanted;
  };
  for (const Row& row : {Row{"", ""}, Row{"retention: {incidents: 500}\n", ""}, Row{"sources: {files: [\"/logs/{job}.log\"]}\n", ""}, Row{"rules: [/etc/rules]\n", ""},
                         Row{"incidents: {close_after: 5s}\n", "incidents"}, Row{"http: {listen: \"127.0.0.1:9999\"}\n", "http"}, Row{"workers: 3\n", "workers"},
                         Row{"sources: {kernel_log: true}\nworkers: 3\n", "workers, sources: kernel_log, journal"}}) {
    CAPTURE(row.text);
    CHECK(daemon::needs_restart(running, config(row.text)) == row.wanted);
  }
}
