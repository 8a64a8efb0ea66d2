// The shipped catalogue as a whole.
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "parsers/base/error_text.hpp"
#include "signatures/plan/catalogue.hpp"

using namespace triage::signatures;

TEST_CASE("the shipped catalogue reads without a fault, ids are unique, every entry has all that an answer needs") {
  const ReadCatalogue read = read_catalogue(embedded_fixes());
  INFO(triage::parsers::error_text(read.faults));
  CHECK(read.faults.empty());
  CHECK(read.fixes.size() >= 130);
  std::set<std::string> ids;
  for (const CatalogueFix& fix : read.fixes) {
    CAPTURE(fix.id);
    CHECK(ids.insert(fix.id).second);
    CHECK(!fix.why.empty());
    CHECK(!fix.sources.empty());
    CHECK(fix.place.file == "fixes/" + fix.family + ".yaml");
  }
}
