#include "signatures/verdict/snapshot_facts.hpp"

#include <doctest/doctest.h>

#include "parsers/events/event.hpp"

using namespace triage;
using namespace triage::signatures;

TEST_CASE("figures of a damaged snapshot that cannot be are left out of the failure, not told") {
  struct Row {
    const char* name;
    double requested, allocated, reserved;   // MiB
    bool tried, unallocated;
  };
  const Row rows[] = {{"sound", 512, 1000, 1500, true, true}, {"nothing asked for", 0, 1000, 1500, false, true}, {"more allocated than reserved", 512, 1500, 1000, true, false}};
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      SnapshotFacts facts;
      facts.moments.push_back({"at the failure", parsers::mib(row.allocated), parsers::mib(row.reserved), {}});
      facts.failure.emplace();
      facts.failure->requested = parsers::mib(row.requested);
      facts.failure->free = parsers::mib(20);
      const SourceFindings found = findings_of(facts);
      REQUIRE(found.findings.size() == 1);
      const auto* event = std::get_if<parsers::OutOfMemory>(&found.findings[0].event);
      REQUIRE(event != nullptr);
      CHECK(event->tried.has_value() == row.tried);
      CHECK(event->reserved_unallocated.has_value() == row.unallocated);
      CHECK((found.findings[0].text.find("asked for") != std::string::npos) == row.tried);
      CHECK((found.findings[0].summary.find("512.00 MiB") != std::string::npos) == row.tried);
      CHECK(found.findings[0].captures.empty() != row.tried);
    }
  }
}
