// Dumps of PyTorch's NCCL flight recorder (versions 2.x, pickle and JSON): what one rank had called, and what of it was not complete.
// Format: pytorch/pytorch: torch/csrc/distributed/c10d/FlightRecorder*.{hpp,cpp}, ProcessGroupNCCL.cpp (who records what).
// Judgement over ranks: signatures/verdict/flight_recorder.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::parsers {

struct RecordedFrame {
  std::string file, function;
  std::int64_t line = 0;
};

// One call of a collective or of send/recv.
struct RecordedOp {
  enum class State : std::uint8_t { scheduled, started, completed };
  std::int64_t record = 0;                        // counts all calls of the process
  std::size_t group = 0;                          // index into Recording::groups
  std::int64_t sequence = 0;                      // collective_seq_id: number of the collective in its group, the same on all ranks
  std::int64_t p2p_sequence = 0;                  // counts the rank's own sends and receives in the group
  std::string name;                               // all_reduce, _all_gather_base, send, recv, coalesced: without "nccl:"
  bool p2p = false;
  std::optional<int> from, to;                    // of send and recv: ranks in the group
  State state = State::scheduled;                 // started is only seen when timing was on
  bool retired = false;                           // taken off the watchdog's list; retired and not completed: it timed out
  std::optional<std::int64_t> created_ns, started_ns, completed_ns;   // since 1970; "when the host found out", not when it happened
  std::optional<std::int64_t> timeout_ms;
  std::string inputs, outputs;                    // "BFloat16[4096,1,5120]"
  std::optional<std::int64_t> elements_in, elements_out;
  std::string thread;
  std::vector<RecordedFrame> frames;              // innermost first; at most 32
};

struct RecordedGroup {
  std::string name, description;
  std::vector<int> ranks;                         // global ranks, in the order of the group
  std::optional<std::int64_t> last_enqueued;      // highest collective_seq_id called, as far as the dump tells
  bool enqueued_by_status = false;                // last_enqueued is of pg_status, which counts sends too
  std::optional<std::int64_t> status_enqueued, status_completed;   // pg_status; -1: none yet
  bool has_p2p = false;
  std::optional<RecordedOp> last;                 // the newest call in it that the dump holds
};

// What the judgement needs of one dump. Calls that are complete are only counted.
struct Recording {
  std::string version, library;                   // "2.9"; NCCL "2.27.3"
  std::optional<int> rank;                        // as the groups and sends tell: the only rank that is in all of them
  std::vector<RecordedGroup> groups;              // that the rank is in
  std::vector<RecordedOp> pending;                // not complete, oldest first; at most limits::kRecorderPending
  std::uint64_t entries = 0, completed = 0;       // calls in the dump
  bool pending_dropped = false;                   // more were pending than are kept
  bool has_status = false;                        // the dump has pg_status (from 2.4 on): a group missing there was never used
  std::optional<std::int64_t> newest_ns;          // when the newest call was made
  std::optional<RecordedOp> newest;               // the newest call of all
  bool cut = false;                               // the file ends early
};

// Errors: syntax (neither pickle nor JSON, or no recorder dump), unsupported (version 1), limit.
Result<Recording> read_flight_recorder(std::string_view bytes, const std::string& file);

// By the first bytes of a file (some hundred are enough).
bool looks_like_recorder_json(std::string_view head);
bool looks_like_recorder_pickle(std::string_view head);

}  // namespace triage::parsers
