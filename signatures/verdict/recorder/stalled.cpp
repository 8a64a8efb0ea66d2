#include "signatures/verdict/recorder/stalled.hpp"

#include <algorithm>
#include <array>

#include "signatures/verdict/recorder/sends.hpp"
#include "signatures/verdict/words.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;

// Calls that one rank may leave before the others came: rooted ones, and sends.
constexpr std::array<std::string_view, 6> kRooted = {"broadcast", "reduce", "gather", "scatter", "_broadcast_oop", "_reduce_oop"};

// A collective that needs all ranks is complete on another member, so this rank took part in it; that it has not seen it complete says
// that its device broke (events that cannot be asked) or that its watchdog and recorder stand still.
void stalled_collectives(const RecordedJob& job, StalledRanks& out) {
  for (const auto& open : job.collectives()) {   // clang 14 takes no structured binding into a lambda
    const auto& holders = open.second;
    if (one_of(holders.front().op->name, kRooted)) continue;
    const auto members = job.members(job.group_of(holders.front()));
    if (std::none_of(members.begin(), members.end(), [&](std::size_t n) { return job.completed(n, open.first.first, open.first.second); })) continue;
    for (const OpenCall& holder : holders) {
      Stall& stall = out[holder.node];
      ++stall.calls;
      if (stall.in == nullptr || holder.op->record < stall.in->record) stall.in = holder.op;
    }
  }
}

// The same for a send or receive: its partners have no open counterpart, and have since made a collective call that this rank made after it.
// So they are past it.
bool partners_are_past(const RecordedJob& job, std::size_t n, const RecordedOp& op) {
  const RecordedRank& rank = job[n];
  const RecordedGroup& group = job.group_of(rank, op);
  const auto peers = partners(rank, op);
  return !peers.empty() && std::all_of(peers.begin(), peers.end(), [&](const SendPartner& partner) {
    const auto found = job.at_place(group, partner.peer);
    if (!found || *found == n || job[*found].recording == nullptr) return false;
    const RecordedRank& other = job[*found];
    if (counterpart(other, RecordedJob::key_of(group), op, partner.order) != nullptr) return false;
    return std::any_of(rank.recording->pending.begin(), rank.recording->pending.end(), [&](const RecordedOp& later) {
      if (later.p2p || later.record <= op.record) return false;
      const RecordedGroup& common = job.group_of(rank, later);
      if (std::find(common.ranks.begin(), common.ranks.end(), other.rank) == common.ranks.end()) return false;
      const auto last = job.last_called(*found, RecordedJob::key_of(common));
      return last && *last >= later.sequence;
    });
  });
}

// Open calls of this name and pair that were made before a record.
std::ptrdiff_t open_before(const RecordedRank& rank, std::size_t group, std::string_view name, const RecordedOp& pair, std::int64_t before) {
  return std::count_if(rank.recording->pending.begin(), rank.recording->pending.end(), [&](const RecordedOp& o) {
    return o.p2p && o.group == group && o.name == name && o.from == pair.from && o.to == pair.to && o.record < before;
  });
}

// Both ranks have a collective call open that they made after their sends and receives. Up to there each send has its receive, and a
// receive that is complete has its send complete: more open sends here than open receives there, and this rank stands still.
bool more_sent_than_awaited(const RecordedJob& job, const RecordedRank& rank, const RecordedOp& op) {
  if (op.name != "send" || !op.to) return false;
  const RecordedGroup& group = job.group_of(rank, op);
  const auto found = job.at_place(group, *op.to);
  if (!found || job[*found].recording == nullptr) return false;
  const RecordedRank& other = job[*found];
  const auto in_other = other.groups.find(RecordedJob::key_of(group));
  if (in_other == other.groups.end()) return false;
  for (const RecordedOp& barrier : rank.recording->pending) {
    if (barrier.p2p || barrier.record <= op.record) continue;
    const auto holders = job.collectives().find({RecordedJob::key_of(job.group_of(rank, barrier)), barrier.sequence});
    if (holders == job.collectives().end()) continue;
    for (const OpenCall& h : holders->second)
      if (h.node == *found && open_before(rank, op.group, "send", op, barrier.record) > open_before(other, in_other->second, "recv", op, h.op->record)) return true;
  }
  return false;
}

}  // namespace

StalledRanks find_stalled(const RecordedJob& job) {
  StalledRanks out;
  stalled_collectives(job, out);
  for (std::size_t n = 0; n < job.size(); ++n)
    for (const RecordedOp* op : posted(job[n])) {
      if (out.contains(n)) break;
      if (partners_are_past(job, n, *op) || more_sent_than_awaited(job, job[n], *op)) out[n] = {op, 1};
    }
  return out;
}

}  // namespace triage::signatures
