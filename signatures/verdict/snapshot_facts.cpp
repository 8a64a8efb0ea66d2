#include "signatures/verdict/snapshot_facts.hpp"

#include <algorithm>
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

// How well they belong together; 0: not at all.
int score(const Diagnosis& d, const SnapshotFacts& s) {
  if (!s.failure || !d.ledger || !d.ledger->tried || !same_as_printed(*d.ledger->tried, s.failure->requested)) return 0;
  const auto known_rank = d.root.rank;
  if (known_rank && s.source.rank && *known_rank != *s.source.rank) return 0;
  if (d.root.device && *d.root.device != s.device) return 0;
  int points = 1;
  if (d.ledger->allocated) {
    if (!same_as_printed(*d.ledger->allocated, s.allocated)) return 0;
    points += 8;
  }
  if (d.ledger->free && same_as_printed(*d.ledger->free, s.failure->free)) points += 4;
  if (known_rank && s.source.rank) points += 4;
  if (folder(d.root.source) == folder(s.source.name)) points += 1;
  // "run7.log" and "run7.snapshot.pickle".
  const std::string_view log = base_name(d.root.source);
  if (const std::string_view stem = log.substr(0, log.find('.')); stem.size() > 2 && base_name(s.source.name).substr(0, base_name(s.source.name).find('.')) == stem) points += 2;
  return points;
}

void join(Diagnosis& d, const SnapshotFacts& s) {
  d.composition = s.terms;
  d.what_if = s.what_if;
  std::string what;
  for (std::size_t i = 0; i < s.terms.size() && i < 3 && s.terms[i].bytes.count() * 100 >= s.terms[0].bytes.count(); ++i) what += (i ? ", " : "") + s.terms[i].term + " " + bytes_text(s.terms[i].bytes);
  d.reasons.push_back("the allocator snapshot " + s.source.name + " is of this failure; it held " + what);
  if (s.growth) d.reasons.push_back(*s.growth);
  if (s.failure && d.root.frames.empty()) d.root.frames = s.failure->frames;
  std::erase_if(d.missing, [](const Missing& missing) { return parsers::contains(missing.what, "allocator history"); });
}

}  // namespace

std::vector<bool> join_snapshots(std::span<Diagnosis*> diagnoses, const std::vector<SnapshotFacts>& snapshots) {
  struct Pair {
    int points;
    std::size_t diagnosis, snapshot;
  };
  std::vector<Pair> pairs;
  for (std::size_t d = 0; d < diagnoses.size(); ++d)
    for (std::size_t s = 0; s < snapshots.size(); ++s)
      if (diagnoses[d]->kind.starts_with("gpu.oom"))
        if (const int points = score(*diagnoses[d], snapshots[s])) pairs.push_back({points, d, s});
  std::ranges::stable_sort(pairs, [](const Pair& a, const Pair& b) { return a.points > b.points; });
  std::vector<bool> used(snapshots.size()), joined(diagnoses.size());
  for (const Pair& pair : pairs) {
    if (used[pair.snapshot] || joined[pair.diagnosis]) continue;
    used[pair.snapshot] = joined[pair.diagnosis] = true;
    join(*diagnoses[pair.diagnosis], snapshots[pair.snapshot]);
  }
  return used;
}

SourceFindings findings_of(const SnapshotFacts& snapshot) {
  SourceFindings out;
  out.source = snapshot.source;
  if (snapshot.source.rank) out.processes.push_back(*snapshot.source.rank);
  if (!snapshot.failure) return out;
  const SnapshotFacts::Failure& failure = *snapshot.failure;

  parsers::OutOfMemory event;
  event.backend = "cuda";
  event.format = "snapshot";
  event.device = snapshot.device;
  event.tried = failure.requested;
  event.free = failure.free;
  event.allocated = snapshot.allocated;
  event.reserved = snapshot.reserved;
  event.reserved_unallocated = snapshot.reserved - snapshot.allocated;

  Finding finding;
  finding.rule = "torch.snapshot.oom";
  finding.role = Role::root;
  // The device's capacity is not in the file: the cache's own figures decide, as for a log (signatures/verdict/ledger.cpp).
  const Bytes unallocated = *event.reserved_unallocated;
  const bool pieces = failure.blocked && !snapshot.expandable_segments && unallocated >= parsers::mib(512) && unallocated.count() >= (snapshot.reserved + failure.free).count() / 100 * 6;
  finding.kind = pieces ? "gpu.oom.fragmentation" : "gpu.oom";
  finding.event = event;
  finding.fixes = {"recompute", "micro_batch", "sequence", "loss", "attention", "optimizer", "sharding", "parallelism", "precision", "offload", "allocator", "process"};
  finding.summary = "The GPU had no room for one more tensor of " + bytes_text(failure.requested) + ".";
  finding.text = "out-of-memory event of the snapshot: " + bytes_text(failure.requested) + " asked for, " + bytes_text(failure.free) + " free on the device, " +
                 bytes_text(snapshot.allocated) + " allocated, " + bytes_text(snapshot.reserved) + " reserved";
  finding.message = finding.text;
  finding.captures = {{"tried", failure.requested}};
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
