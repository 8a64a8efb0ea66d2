// Jobs of up to 16 ranks with any groups, calls and states: the judgement over ranks must stay within the job and must end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "signatures/verdict/flight_recorder.hpp"

namespace {

using namespace triage;

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  unsigned next(unsigned below) { return at_ < size_ ? data_[at_++] % below : 0; }
  bool more() const { return at_ < size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

constexpr const char* kCalls[] = {"all_reduce", "_all_gather_base", "broadcast", "all_to_all", "coalesced", "barrier"};

parsers::RecordedOp op_of(Bytes& in, std::size_t groups, std::int64_t record) {
  parsers::RecordedOp op;
  op.record = record;
  op.group = in.next(static_cast<unsigned>(groups));
  op.sequence = static_cast<std::int64_t>(in.next(8)) - 1;
  op.p2p_sequence = in.next(4);
  const unsigned kind = in.next(10);
  op.p2p = kind >= 6;
  op.name = kind < 6 ? kCalls[kind] : kind % 2 ? "send" : "recv";
  if (op.p2p && kind < 9) {
    op.from = static_cast<int>(in.next(20)) - 2;
    op.to = static_cast<int>(in.next(20)) - 2;
  }
  op.state = static_cast<parsers::RecordedOp::State>(in.next(2));
  if (const unsigned when = in.next(64)) op.created_ns = static_cast<std::int64_t>(when);
  op.inputs = in.next(4) ? "Float[8]" : "Float[9]";
  return op;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  const unsigned world = 1 + in.next(16);
  std::vector<parsers::Recording> recordings(world);
  std::vector<signatures::RankRecording> ranks;
  for (unsigned r = 0; r < world; ++r) {
    parsers::Recording& recording = recordings[r];
    if (in.next(8) == 1) continue;   // no dump
    const unsigned groups = 1 + in.next(4);
    for (unsigned g = 0; g < groups; ++g) {
      parsers::RecordedGroup group;
      group.name = std::to_string(in.next(5));
      group.description = in.next(2) ? "stage" : "";
      const unsigned members = in.next(17);
      for (unsigned m = 0; m < members; ++m) group.ranks.push_back(static_cast<int>(in.next(4) ? m : in.next(32)));
      if (const unsigned last = in.next(10)) group.last_enqueued = static_cast<std::int64_t>(last) - 1;
      group.enqueued_by_status = in.next(2) != 0;
      group.has_p2p = in.next(2) != 0;
      recording.groups.push_back(group);
    }
    const unsigned calls = in.next(6);
    for (unsigned c = 0; c < calls; ++c) recording.pending.push_back(op_of(in, groups, c));
    if (!recording.pending.empty() && in.next(2)) recording.newest = recording.pending.back();
    if (in.next(2)) recording.newest_ns = in.next(64);
    recording.has_status = in.next(2) != 0;
    recording.pending_dropped = in.next(4) == 1;
    ranks.push_back({static_cast<int>(in.next(8) ? r : in.next(40)), &recording});
  }
  const auto verdict = signatures::judge_recordings(ranks);
  if (!verdict) return 0;
  for (const int rank : verdict->fault.culprit_ranks)
    if (rank < 0 || rank > 64) std::abort();
  for (const int rank : verdict->fault.waiting_ranks)
    for (const int culprit : verdict->fault.culprit_ranks)
      if (rank == culprit) std::abort();
  return 0;
}
