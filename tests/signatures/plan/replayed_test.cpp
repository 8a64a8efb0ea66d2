#include "signatures/plan/replayed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "signatures/plan/rank.hpp"
#include "tests/signatures/plan/diagnoses.hpp"

using namespace triage::signatures;
using namespace triage::signatures::tests;
using triage::parsers::Bytes;

namespace {

const std::vector<CatalogueFix>& catalogue() {
  static const std::vector<CatalogueFix> fixes = read_catalogue(embedded_fixes()).fixes;
  return fixes;
}

const Fix* find(const Plan& plan, std::string_view id) {
  for (const Fix& fix : plan.fixes)
    if (fix.id == id) return &fix;
  return nullptr;
}

}  // namespace

TEST_CASE("a replay that rescues the run stands first, with its saving, peak and figures") {
  Diagnosis diagnosis = fragmentation();
  AllocatorWhatIf what;
  what.settings = "expandable_segments:True,memory_limit:1000";
  what.rescues = true;
  what.saving = triage::parsers::gib(29.5);
  what.room_left = triage::parsers::gib(13.0);
  what.note = "gets past the failure: 126.17 GiB reserved at the peak";
  diagnosis.what_if = {what};
  const Plan plan = plan_fixes(diagnosis, catalogue());
  const Fix& fix = plan.fixes.at(0);
  CHECK(fix.id == "allocator.expandable");
  REQUIRE(fix.saving);
  CHECK(fix.saving->mid == triage::parsers::gib(29.5));
  CHECK(fix.fits == true);
  CHECK(fix.basis == Basis::modelled);
  REQUIRE(diagnosis.ledger);
  REQUIRE(diagnosis.ledger->capacity);
  REQUIRE(fix.predicted_peak);
  CHECK(*fix.predicted_peak == *diagnosis.ledger->capacity - triage::parsers::gib(13.0));
  CHECK(fix.why.find("126.17 GiB reserved at the peak") != std::string::npos);
}

TEST_CASE("advice that the replay shows to do harm comes last and says so; what does not help sinks") {
  Diagnosis diagnosis = fragmentation();
  AllocatorWhatIf worse;
  worse.settings = "max_split_size_mb:512";
  worse.worse = true;
  worse.note = "would be worse: out of memory at event 12";
  AllocatorWhatIf useless;
  useless.settings = "expandable_segments:True";
  useless.note = "no help: out of memory at event 5168";
  diagnosis.what_if = {worse, useless};
  CatalogueFix const* split = nullptr;
  for (const CatalogueFix& entry : catalogue())
    if (entry.id == "allocator.max_split") split = &entry;
  REQUIRE(split);
  const Plan alone = plan_fixes(diagnosis, {*split});
  REQUIRE(alone.fixes.size() == 1);
  CHECK(alone.fixes[0].fits == false);
  CHECK_FALSE(alone.fixes[0].saving);
  CHECK(alone.fixes[0].why == "Often advised, but the run's own requests, replayed under it, say: would be worse: out of memory at event 12.");
  const Plan plan = plan_fixes(diagnosis, catalogue());
  const Plan before = plan_fixes(fragmentation(), catalogue());
  CHECK(before.fixes.at(0).id == "allocator.expandable");
  const Fix* expandable = find(plan, "allocator.expandable");
  if (expandable) CHECK(expandable->fits == false);
  CHECK(replay_weight(diagnosis, "allocator.expandable", 100) == 70);
  CHECK(replay_weight(diagnosis, "allocator.max_split", 100) == 10);
  CHECK(replay_weight(diagnosis, "allocator.static_shapes", 100) == 100);
}

TEST_CASE("the values for the plan are made of a replayed recording") {
  ReplayTrace trace;
  trace.capacity = triage::parsers::gib(100);
  trace.recorded.ooms = 1;
  WhatIfs replayed;
  ReplayResult& base = replayed.check.result;
  base.first_oom = ReplayOutOfMemory{5, 0, triage::parsers::gib(30), triage::parsers::gib(90), triage::parsers::gib(60)};
  WhatIf own, rescue, harm;
  own.effect = WhatIfEffect::as_recorded;
  rescue.settings = "expandable_segments:True";
  rescue.effect = WhatIfEffect::rescues;
  rescue.result.reserved_peak = triage::parsers::gib(95);
  harm.settings = "max_split_size_mb:128";
  harm.effect = WhatIfEffect::fails;
  replayed.ranked = {rescue, own, harm};
  const auto values = allocator_what_ifs(replayed, trace);
  REQUIRE(values.size() == 2);
  CHECK(values[0].rescues);
  CHECK(values[0].saving == triage::parsers::gib(25));
  CHECK(values[0].room_left == triage::parsers::gib(5));
  CHECK(values[1].worse);
  CHECK(values[1].saving == Bytes());
  base.first_oom.reset();
  CHECK(allocator_what_ifs(replayed, trace).empty());
}
