// Logs recorded on one H200, against what each must give (tests/corpus/recorded/expected.json).
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <nlohmann/json.hpp>

#include "tests/support/scan.hpp"

using namespace triage;
using nlohmann::json;

namespace {

const std::string kFolder = TRIAGE_SOURCE_DIR "/tests/corpus/recorded/";

json expected() {
  std::ifstream in(kFolder + "expected.json");
  return json::parse(in);
}

bool one_of(const json& wanted, std::string_view got) {
  for (const json& item : wanted)
    if ((item.is_null() && got == "unknown") || (item.is_string() && item == got)) return true;
  return false;
}

std::string family(const std::string& fix) { return fix.substr(0, fix.find('.')); }

void check_bytes(const json& want, const char* name, const std::optional<parsers::Bytes>& got) {
  if (!want.contains(name)) return;
  CAPTURE(std::string(name));
  REQUIRE(got);
  CHECK(got->count() == want[name].get<std::int64_t>());
}

void check_incident(const json& want, const daemon::JudgedIncident& incident) {
  const signatures::Diagnosis& d = incident.diagnosis;
  const std::string kind = want["kind"];
  bool kind_ok = d.kind == kind || (kind.ends_with('.') && d.kind.starts_with(kind));
  if (want.contains("kind_ok"))
    for (const std::string head : want["kind_ok"]) kind_ok = kind_ok || d.kind.starts_with(head);
  CAPTURE(d.kind);
  CHECK(kind_ok);
  CAPTURE(std::string(signatures::phase_name(d.phase)));
  if (want.contains("phase")) CHECK(one_of(want["phase"], signatures::phase_name(d.phase)));
  if (want.contains("rank")) CHECK(d.root.rank == want["rank"].get<int>());
  if (want.contains("step")) {
    REQUIRE(d.root.step);
    CHECK(std::find(want["step"].begin(), want["step"].end(), *d.root.step) != want["step"].end());
  }
  if (want.contains("tried") || want.contains("free")) {
    REQUIRE(d.ledger);
    check_bytes(want, "tried", d.ledger->tried);
    check_bytes(want, "free", d.ledger->free);
    check_bytes(want, "capacity", d.ledger->capacity);
  }
  if (want.contains("other_pid")) {
    REQUIRE(d.ledger);
    REQUIRE(d.ledger->other_processes.size() == 1);
    CHECK(d.ledger->other_processes[0].pid == want["other_pid"].get<std::int64_t>());
  }
  if (want.contains("echo_ranks")) {
    std::set<int> ranks;
    for (const signatures::Echo& echo : d.echoes) ranks.insert(echo.ranks.begin(), echo.ranks.end());
    for (const int rank : want["echo_ranks"]) CHECK(ranks.count(rank) == 1);
  }
  if (want.contains("config"))
    for (const auto& item : want["config"].items()) {
      const std::string& name = item.key();
      const auto& value = item.value();
      CAPTURE(name);
      const auto key = parsers::key_by_name(name);
      REQUIRE(key);
      CHECK(d.config.integer(*key) == value.get<std::int64_t>());
    }
  if (want.contains("first_fix")) {
    REQUIRE_FALSE(incident.plan.fixes.empty());
    CAPTURE(incident.plan.fixes[0].id);
    CHECK(one_of(want["first_fix"], family(incident.plan.fixes[0].id)));
  }
  if (want.contains("not_fix"))
    for (const signatures::Fix& fix : incident.plan.fixes) {
      CAPTURE(fix.id);
      CHECK_FALSE(one_of(want["not_fix"], family(fix.id)));
    }
}

}  // namespace

TEST_CASE("recorded logs give what was seen on the machine that made them") {
  REQUIRE(tests::knowledge());
  const json cases = expected();
  REQUIRE(cases.size() >= 21);
  for (const auto& [name, want] : cases.items()) {
    SUBCASE(name.c_str()) {
      const daemon::Answer answer = tests::scan_paths({kFolder + name + ".log"});
      REQUIRE(answer.stats.lines > 0);
      if (want["kind"] == "none") {
        for (const auto& incident : answer.incidents) CAPTURE(incident.diagnosis.root.text);
        CHECK(answer.incidents.empty());
      } else {
        REQUIRE(answer.incidents.size() == 1);
        check_incident(want, answer.incidents.front());
      }
    }
  }
}
