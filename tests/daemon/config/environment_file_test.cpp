#include "daemon/config/environment_file.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include "daemon/config/config.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;

TEST_CASE("an environment file: one variable a line, comments, quotes, the last one counts") {
  const char* const text = "# A=comment\n;A=comment\n\n A=first\nB = \"in quotes\" \nC='single'\r\nD=\nE=a=b \"c\"\nF=\"\nA=last\nno assignment\nAA=other\n";
  const struct {
    const char* name;
    std::optional<std::string> value;
  } rows[] = {{"A", "last"}, {"B", "in quotes"}, {"C", "single"}, {"D", ""}, {"E", "a=b \"c\""}, {"F", "\""}, {"G", {}}, {"", {}}, {"no assignment", {}}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    CHECK(environment_value(text, row.name) == row.value);
  }
}

TEST_CASE("who checks the configuration by hand has the secrets that the unit gives to the service") {
  const triage::tests::TempFolder folder;
  ::unsetenv("TRIAGED_TEST_HOOK");
  folder.append("triaged.yaml", "alerts: {sinks: {ops: {type: slack_bot, token: 'env:TRIAGED_TEST_HOOK', channel: '#a'}}}\n");
  ReadConfig read = read_config_file(folder / "triaged.yaml");
  REQUIRE(read.faults.size() == 1);
  CHECK(read.faults.front().message() == "the environment variable TRIAGED_TEST_HOOK is not set");
  folder.append("environment", "OTHER=1\n");
  read = read_config_file(folder / "triaged.yaml");
  REQUIRE(read.faults.size() == 1);
  CHECK(read.faults.front().reason() == "nor is it in " + (folder / "environment"));
  folder.append("environment", "TRIAGED_TEST_HOOK=xoxb-of-the-file\n");
  CHECK(read_config_file(folder / "triaged.yaml").faults.empty());
  CHECK(*secrets_beside(folder / "")("env", "TRIAGED_TEST_HOOK") == "xoxb-of-the-file");
  ::setenv("TRIAGED_TEST_HOOK", "of the process", 1);
  CHECK(*secrets_beside(folder / "")("env", "TRIAGED_TEST_HOOK") == "of the process");
  ::unsetenv("TRIAGED_TEST_HOOK");
}
