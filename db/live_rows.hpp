// What the service gives to its store and gets back. Values only. Times are UTC; sizes and offsets are bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/rows.hpp"
#include "parsers/lines/spool_line.hpp"

namespace triage::db {

// One generation of one source and how far it was read. (name, generation) names it; id 0: not stored yet.
struct WatchedRow {
  std::int64_t id = 0;
  std::string name;
  std::uint64_t generation = 0;
  std::string kind;                    // file (empty as well), dump, push, kmsg, journal
  std::string job, node;
  int attempt = 1;
  std::optional<int> rank, local_rank;
  std::uint64_t device = 0, inode = 0, offset = 0, lines = 0, size = 0, check_hash = 0;
  std::uint32_t check_bytes = 0;
  std::uint64_t lost_bytes = 0;        // known to be lost, of this generation
  bool ended = false;                  // gives no more bytes
  std::optional<std::string> tail;     // last bytes before the offset, at most 4 KiB. Empty optional: commit leaves what is stored;
                                       // watched() does not load it, LiveStore::tail does (10,000 of them would be 40 MB)
  std::string batches;                 // pushed streams: hashes of the last batches
  std::string cursor;                  // sources that are no file: where to go on
  parsers::TimePoint seen_at;
};

// A line that the judgement looked at. One line a (source, offset): a later text replaces an earlier one, such as a line that was
// handed out before its end was written.
using parsers::SpoolLine;

struct SourceCommit {
  WatchedRow row;                      // id is given back
  std::vector<SpoolLine> spool;        // new lines
  std::vector<std::uint64_t> dropped;  // offsets of stored lines that are needed no longer (an older progress line); gone before new ones come
};

struct TrackedIncident {
  std::string id;                      // of the incident: stays while the diagnosis sharpens
  std::string job;
  int attempt = 1;
  bool closed = false;
  parsers::TimePoint opened_at, changed_at;
  std::uint64_t revision = 0;
};

enum class OutboxState : std::uint8_t { waiting, sending, sent, dead, uncertain };
std::string_view outbox_state_name(OutboxState state);
OutboxState outbox_state_of(std::string_view name);   // uncertain for a name that is none

// One thing to tell one sink. (sink, incident, event, revision) is unique: what is put again is ignored.
struct OutboxItem {
  std::int64_t id = 0;                 // given back by commit; 0 still: it was there before
  std::string sink, channel, incident, event;   // event: opened, updated, closed, next_run
  std::uint64_t revision = 0;
  std::string body;                    // JSON of the alert; empty once it is sent
  parsers::TimePoint not_before;
  int tries = 0;
  OutboxState state = OutboxState::waiting;
  std::string error, receipt;
  parsers::TimePoint created_at, changed_at;    // filled by the store
};

// Names an item of the outbox.
struct OutboxKey {
  std::string sink, incident, event;
  std::uint64_t revision = 0;
};

// What a later attempt says of a change. fixes: ids of the catalogue that the change amounts to, may be empty; settings: the change as
// the run states it ("micro-batch-size 4 -> 2").
struct NextRun {
  std::string incident, fingerprint, job;
  int attempt = 1;                     // the later one
  bool helped = true;                  // it passed the failing step; false: it failed there again
  std::vector<std::string> fixes;
  std::string settings;
  parsers::TimePoint at;
};

// What goes in together or not at all.
struct LiveBatch {
  std::vector<SourceCommit> sources;
  std::vector<Keep> incidents;         // their diagnoses and plans have to live until commit returns
  std::vector<TrackedIncident> tracked;   // one whose incident is neither in this batch nor stored (retention took it) is ignored
  std::vector<OutboxKey> withdraw;     // taken back before new items come; what waits no more stays as it is
  std::vector<OutboxItem> outbox;
  std::vector<NextRun> next_runs;
  RuleSet rules;
  parsers::TimePoint now;
  bool flush = false;                  // on the disk when commit returns: survives a loss of power, not only of the process. For what
                                       // cannot be read again, such as pushed lines; costs one fsync
};

// Alerts held back from starts_at to ends_at. Empty fields fit everything; kind is the beginning of a kind, in whole parts.
struct Silence {
  std::int64_t id = 0;
  std::string kind, job, node, fingerprint;
  parsers::TimePoint starts_at, ends_at;
  std::string author, reason;
  parsers::TimePoint created_at;
};

}  // namespace triage::db
