#include "signatures/verdict/snapshot_facts.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"
#include "parsers/events/event.hpp"

namespace triage::signatures {

using parsers::Bytes;
using parsers::bytes_text;

namespace {

// PyTorch prints two decimals: "1.00 GiB" may be off by 0.5 %.
bool same_as_printed(Bytes printed, Bytes exact) {
  const std::int64_t difference = std::llabs((printed - exact).count());
  return difference <= exact.count() / 200 + 1;
}

std::string_view base_name(std::string_view name) {
  const std::size_t slash = name.find_last_of("/!");
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}
std::string_view folder(std::string_view name) { return name.substr(0, name.size() - base_name(name).size()); }

bool of_other_process(const Diagnosis& d, const SnapshotFacts& s) {
  if (d.root.rank && s.source.rank && *d.root.rank != *s.source.rank) return true;
  return d.root.device && *d.root.device != s.device;
}

// "run7.log" and "run7.snapshot.pickle" in one folder.
int name_points(const Diagnosis& d, const SnapshotFacts& s) {
  int points = folder(d.root.source) == folder(s.source.name) ? 1 : 0;
  const std::string_view log = base_name(d.root.source);
  if (const std::string_view stem = log.substr(0, log.find('.')); stem.size() > 2 && base_name(s.source.name).substr(0, base_name(s.source.name).find('.')) == stem) points += 2;
  return points;
}

// How well a snapshot of a failure and a diagnosis belong together; 0: not at all.
int failure_score(const Diagnosis& d, const SnapshotFacts& s) {
  if (!d.ledger || !d.ledger->tried || !same_as_printed(*d.ledger->tried, s.failure->requested) || of_other_process(d, s)) return 0;
  int points = 101;   // before all that hold no failure
  if (d.ledger->allocated) {
    if (!same_as_printed(*d.ledger->allocated, s.moments.front().allocated)) return 0;
    points += 8;
  }
  if (d.ledger->free && same_as_printed(*d.ledger->free, s.failure->free)) points += 4;
  if (d.root.rank && s.source.rank) points += 4;
  return points + name_points(d, s);
}

// The moment of a snapshot whose allocated bytes come nearest to those of the failure.
const SnapshotFacts::Moment& nearest_moment(const Diagnosis& d, const SnapshotFacts& s) {
  if (!d.ledger || !d.ledger->allocated) return s.moments.front();
  return *std::ranges::min_element(s.moments, {}, [&](const SnapshotFacts::Moment& moment) { return std::llabs((moment.allocated - *d.ledger->allocated).count()); });
}

// The same for a snapshot without a failure. Clocks of logs may lack their zone, so only a day apart is another run.
int state_score(const Diagnosis& d, const SnapshotFacts& s) {
  constexpr auto kSameMoment = std::chrono::minutes(15);
  constexpr auto kOtherRun = std::chrono::hours(15);
  constexpr int kEnough = 3;
  if (of_other_process(d, s)) return 0;
  // Dumps lie beside the log or in a folder below.
  const std::string_view logs = folder(d.root.source), dumps = folder(s.source.name);
  if (!dumps.starts_with(logs) && !logs.starts_with(dumps)) return 0;
  int points = 1;
  if (d.root.time && s.time) {
    const auto apart = *d.root.time > *s.time ? *d.root.time - *s.time : *s.time - *d.root.time;
    if (apart > kOtherRun) return 0;
    if (apart <= kSameMoment) points += 4;
  }
  if (d.ledger && d.ledger->allocated) {
    const Bytes wanted = *d.ledger->allocated, held = nearest_moment(d, s).allocated;
    if (same_as_printed(wanted, held)) points += 8;
    else if (std::llabs((wanted - held).count()) <= wanted.count() / 4) points += 2;
    else return 0;   // the memory that failed is not in it
  }
  if (d.root.rank && s.source.rank) points += 4;
  points += name_points(d, s);
  return points >= kEnough ? points : 0;
}

int score(const Diagnosis& d, const SnapshotFacts& s) { return s.failure ? failure_score(d, s) : state_score(d, s); }

// Memory that each step left behind is what filled the device.
void take_growth(Diagnosis& d, const SnapshotFacts& s, const SnapshotFacts::Moment& moment) {
  if (!s.growth) return;
  const SnapshotFacts::Growth& growth = *s.growth;
  d.reasons.push_back("memory grew by " + bytes_text(growth.per_step) + " a step over " + std::to_string(growth.steps) + " steps, most of it at " + growth.where);
  if (d.kind != "gpu.oom.capacity" || growth.total.count() * 4 < moment.allocated.count()) return;
  d.kind = "gpu.oom.leak";
  d.summary += " Memory had grown from step to step: " + bytes_text(growth.total) + " were left behind at " + growth.where + ".";
}

// Once, however many doubts there are.
void take_doubts(Diagnosis& d, const SnapshotFacts& s) {
  constexpr double kLess = 0.1;
  if (s.doubts.empty()) return;
  for (CompositionTerm& term : d.composition) term.in_doubt = true;
  for (const std::string& doubt : s.doubts) d.reasons.push_back("the figures of the allocator snapshot are in doubt: " + doubt);
  d.confidence = std::max(0.05, d.confidence - kLess);
}

void join(Diagnosis& d, const SnapshotFacts& s) {
  const SnapshotFacts::Moment& moment = nearest_moment(d, s);
  d.composition = moment.terms;
  d.what_if = s.what_if;
  std::string what;
  const std::vector<CompositionTerm>& terms = moment.terms;
  for (std::size_t i = 0; i < terms.size() && i < 3 && terms[i].bytes.count() * 100 >= terms[0].bytes.count(); ++i)
    what += (i ? ", " : "") + terms[i].term + " " + bytes_text(terms[i].bytes) + (terms[i].guessed.count() * 2 > terms[i].bytes.count() ? " (guessed)" : "");
  if (what.empty()) what = "nothing";
  if (s.failure) {
    d.reasons.push_back("the allocator snapshot " + s.source.name + " is of this failure; it held " + what);
  } else {
    d.reasons.push_back("the allocator snapshot " + s.source.name + " is of this process, without the failure itself; " + moment.when + " it held " + bytes_text(moment.allocated) +
                        (d.ledger && d.ledger->allocated ? " of the " + bytes_text(*d.ledger->allocated) + " at the failure" : std::string()) + ": " + what);
  }
  take_doubts(d, s);
  take_growth(d, s, moment);
  if (s.failure && d.root.frames.empty()) d.root.frames = s.failure->frames;
  if (s.events > 0) std::erase_if(d.missing, [](const Missing& missing) { return parsers::contains(missing.what, "allocator history"); });
}

}  // namespace

std::vector<bool> join_snapshots(std::span<Diagnosis*> diagnoses, const Snapshots& snapshots) {
  struct Pair {
    int points;
    std::size_t diagnosis, snapshot;
  };
  std::vector<Pair> pairs;
  for (std::size_t d = 0; d < diagnoses.size(); ++d)
    for (std::size_t s = 0; s < snapshots.size(); ++s)
      if (diagnoses[d]->kind.starts_with("gpu.oom"))
        if (const int points = score(*diagnoses[d], *snapshots[s])) pairs.push_back({points, d, s});
  // Of snapshots that fit alike the last one is nearest to the end of the run.
  const auto last = [&](const Pair& pair) { return snapshots[pair.snapshot]->time.value_or(parsers::TimePoint{}); };
  std::ranges::stable_sort(pairs, [&](const Pair& a, const Pair& b) { return a.points != b.points ? a.points > b.points : last(a) > last(b); });
  std::vector<bool> used(snapshots.size()), joined(diagnoses.size());
  for (const Pair& pair : pairs) {
    if (used[pair.snapshot] || joined[pair.diagnosis]) continue;
    used[pair.snapshot] = joined[pair.diagnosis] = true;
    join(*diagnoses[pair.diagnosis], *snapshots[pair.snapshot]);
  }
  return used;
}

SourceFindings findings_of(const SnapshotFacts& snapshot) {
  SourceFindings out;
  out.source = snapshot.source;
  if (snapshot.source.rank) out.processes.push_back(*snapshot.source.rank);
  if (!snapshot.failure) return out;
  const SnapshotFacts::Failure& failure = *snapshot.failure;
  const Bytes allocated = snapshot.moments.front().allocated, reserved = snapshot.moments.front().reserved;

  parsers::OutOfMemory event;
  event.backend = "cuda";
  event.format = "snapshot";
  event.device = snapshot.device;
  if (failure.requested.count() > 0) event.tried = failure.requested;
  event.free = failure.free;
  event.allocated = allocated;
  event.reserved = reserved;
  if (reserved >= allocated) event.reserved_unallocated = reserved - allocated;   // sums of a damaged file may say otherwise

  Finding finding;
  finding.rule = "torch.snapshot.oom";
  finding.role = Role::root;
  // The device's capacity is not in the file: the cache's own figures decide, as for a log (signatures/verdict/ledger.cpp).
  const Bytes unallocated = event.reserved_unallocated.value_or(Bytes(0));
  const bool pieces = failure.blocked && !snapshot.expandable_segments && unallocated >= parsers::mib(512) && unallocated.count() >= (reserved + failure.free).count() / 100 * 6;
  finding.kind = pieces ? "gpu.oom.fragmentation" : "gpu.oom";
  finding.event = event;
  finding.fixes = {"recompute", "micro_batch", "sequence", "loss", "attention", "optimizer", "sharding", "parallelism", "precision", "offload", "allocator", "process"};
  finding.summary = "The GPU had no room for one more tensor" + (event.tried ? " of " + bytes_text(*event.tried) : std::string()) + ".";
  finding.text = "out-of-memory event of the snapshot: " + (event.tried ? bytes_text(*event.tried) + " asked for, " : std::string()) + bytes_text(failure.free) + " free on the device, " +
                 bytes_text(allocated) + " allocated, " + bytes_text(reserved) + " reserved";
  finding.message = finding.text;
  if (event.tried) finding.captures = {{"tried", *event.tried}};
  finding.rank = snapshot.source.rank;
  finding.local_rank = snapshot.source.local_rank;
  finding.node = snapshot.source.node;
  finding.device = snapshot.device;
  finding.time = failure.time;
  if (!failure.frames.empty()) {
    parsers::Traceback trace;
    trace.exception = "torch.OutOfMemoryError";
    trace.message = finding.message;
    trace.frames = failure.frames;
    finding.traceback = std::move(trace);
  }
  out.first_time = out.last_time = failure.time;
  out.findings.push_back(std::move(finding));
  return out;
}

}  // namespace triage::signatures
