#include "signatures/verdict/recorder/job.hpp"

#include <algorithm>

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;
using parsers::Recording;

// Sends run beside the calls that follow; a send coalesced with a receive is one call with it.
const RecordedOp* blocking(const Recording& recording) {
  for (const RecordedOp& op : recording.pending)
    if (!op.p2p || op.name != "send") return &op;
  return recording.pending.empty() ? nullptr : &recording.pending.front();
}

}  // namespace

RecordedJob::RecordedJob(std::span<const RankRecording> recordings) {
  std::set<int> world;
  std::map<int, const Recording*> dumps;
  std::map<std::string, const std::vector<int>*> seen;   // most ranks tell the same of a group
  for (const auto& r : recordings) {
    if (r.recording == nullptr) continue;
    dumps.emplace(r.rank, r.recording);
    world.insert(r.rank);
    for (const auto& group : r.recording->groups) {
      const std::vector<int>*& same = seen[key_of(group)];
      if (same != nullptr && *same == group.ranks) continue;
      same = &group.ranks;
      world.insert(group.ranks.begin(), group.ranks.end());
    }
  }
  for (const int rank : world) {
    const auto found = dumps.find(rank);
    index_[rank] = ranks_.size();
    ranks_.push_back({rank, found == dumps.end() ? nullptr : found->second, {}, nullptr});
  }
  for (std::size_t n = 0; n < ranks_.size(); ++n) {
    RecordedRank& rank = ranks_[n];
    if (rank.recording == nullptr) continue;
    for (std::size_t g = 0; g < rank.recording->groups.size(); ++g) {
      const RecordedGroup& group = rank.recording->groups[g];
      rank.groups.emplace(key_of(group), g);
      if (group.has_p2p) with_sends_.insert(kind_of(group));
    }
    for (const RecordedOp& op : rank.recording->pending)
      if (!op.p2p) collectives_[{key_of(rank.recording->groups[op.group]), op.sequence}].push_back({n, &op});
    rank.head = blocking(*rank.recording);
  }
}

std::string RecordedJob::key_of(const RecordedGroup& group) {
  return group.name + '/' + std::to_string(group.ranks.size()) + '/' + (group.ranks.empty() ? std::string() : std::to_string(group.ranks.front()));
}

std::string RecordedJob::kind_of(const RecordedGroup& group) {
  return group.description.empty() || group.description == "undefined" ? '#' + key_of(group) : group.description;
}

std::vector<std::size_t> RecordedJob::members(const RecordedGroup& group) const {
  std::vector<std::size_t> out;
  out.reserve(group.ranks.size());
  for (const int rank : group.ranks)
    if (const auto found = index_.find(rank); found != index_.end()) out.push_back(found->second);
  return out;
}

std::optional<std::size_t> RecordedJob::at_place(const RecordedGroup& group, int place) const {
  if (place < 0 || static_cast<std::size_t>(place) >= group.ranks.size()) return {};
  const auto found = index_.find(group.ranks[static_cast<std::size_t>(place)]);
  return found == index_.end() ? std::nullopt : std::optional<std::size_t>(found->second);
}

std::vector<int> RecordedJob::numbers(const std::set<std::size_t>& nodes) const {
  std::vector<int> out;
  for (const std::size_t n : nodes) out.push_back(ranks_[n].rank);
  return out;
}

std::optional<std::int64_t> RecordedJob::last_called(std::size_t node, const std::string& key) const {
  const RecordedRank& rank = ranks_[node];
  if (rank.recording == nullptr) return {};
  const auto found = rank.groups.find(key);
  if (found == rank.groups.end()) return rank.recording->has_status ? std::optional<std::int64_t>(0) : std::nullopt;
  const RecordedGroup& group = rank.recording->groups[found->second];
  // pg_status counts the last work of either kind: where the group also sends, its number says nothing of collectives.
  if (group.enqueued_by_status && sends(group)) return {};
  if (group.last_enqueued) return group.last_enqueued;
  return rank.recording->has_status && !group.status_enqueued ? std::nullopt : std::optional<std::int64_t>(0);
}

bool RecordedJob::open(std::size_t node, const std::string& key, std::int64_t sequence) const {
  const auto found = collectives_.find({key, sequence});
  return found != collectives_.end() && std::ranges::binary_search(found->second, node, {}, &OpenCall::node);
}

bool RecordedJob::completed(std::size_t node, const std::string& key, std::int64_t sequence) const {
  const auto last = last_called(node, key);
  if (!last || *last < sequence || open(node, key, sequence)) return false;
  const Recording& recording = *ranks_[node].recording;
  if (!recording.pending_dropped || recording.pending.empty()) return true;
  const auto group = ranks_[node].groups.find(key);
  return group == ranks_[node].groups.end() || recording.pending.back().group != group->second || recording.pending.back().sequence > sequence;
}

bool RecordedJob::many_silent() const {
  const auto silent = static_cast<std::size_t>(std::count_if(ranks_.begin(), ranks_.end(), [](const RecordedRank& r) { return r.recording == nullptr; }));
  return silent * 8 > ranks_.size();
}

}  // namespace triage::signatures
