#include "signatures/verdict/recorder/peers.hpp"

#include <algorithm>

namespace triage::signatures {

using parsers::RecordedOp;

namespace {
constexpr std::size_t kPeers = 256;   // limit: larger stages are not compared rank by rank
}  // namespace

StagePeers::StagePeers(const RecordedJob& job) : job_(job), stage_(stages()) {}

// The stage of a pipeline: the rank's place in the groups that send. One stage, one program. Unknown where the kinds of groups are not told.
std::vector<std::optional<std::string>> StagePeers::stages() const {
  bool part = false;   // Is there a group that sends and is not of all ranks? Then sends in the group of all ranks follow from it.
  for (const RecordedRank& rank : job_.ranks())
    if (rank.recording != nullptr)
      for (const auto& group : rank.recording->groups) part = part || (job_.sends(group) && group.ranks.size() < job_.size());
  std::vector<std::optional<std::string>> out(job_.size());
  for (std::size_t n = 0; n < job_.size(); ++n) {
    const RecordedRank& rank = job_[n];
    if (rank.recording == nullptr) continue;
    std::string stage;
    bool known = true;
    for (const auto& group : rank.recording->groups) {
      if (!job_.sends(group) || (part && group.ranks.size() == job_.size())) continue;
      const std::string kind = RecordedJob::kind_of(group);
      known = known && !kind.starts_with('#');
      const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank.rank);
      stage += kind + '@' + std::to_string(place - group.ranks.begin()) + ' ';
    }
    if (known) out[n] = std::move(stage);
  }
  return out;
}

std::map<std::size_t, CallsBehind> StagePeers::held_up(const std::set<std::size_t>& candidates) const {
  std::map<std::string, std::vector<std::size_t>> stages;
  for (const std::size_t n : candidates)
    if (stage_[n]) stages[*stage_[n]].push_back(n);
  std::map<std::size_t, CallsBehind> out;
  for (const auto& [stage, members] : stages) {
    if (members.size() < 3 || members.size() > kPeers) continue;
    std::vector<Progress> progress;
    for (const std::size_t n : members) progress.push_back(progress_of(n));
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] == 0 || members[i] + 1 == job_.size()) continue;
      std::size_t further = 0;
      CallsBehind most;
      for (std::size_t j = 0; j < members.size(); ++j)
        if (j != i)
          if (const auto fewer = fewer_calls(progress[i], progress[j]); fewer.first > 0) {
            ++further;
            most = std::max(most, fewer);
          }
      if (further >= 2) out.emplace(members[i], most);
    }
  }
  return out;
}

std::optional<std::pair<std::size_t, CallsBehind>> StagePeers::with_fewest_calls(const std::set<std::size_t>& set) const {
  if (set.size() > kPeers) return {};
  for (const std::size_t n : set)
    if (!stage_[n] || stage_[n] != stage_[*set.begin()]) return {};
  std::vector<Progress> progress;
  for (const std::size_t n : set) progress.push_back(progress_of(n));
  std::size_t i = 0;
  for (const std::size_t n : set) {
    CallsBehind least{INT64_MAX, {}};
    for (std::size_t j = 0; j < progress.size(); ++j)
      if (j != i) least = std::min(least, fewer_calls(progress[i], progress[j]));
    ++i;
    if (least.first > 0) return std::make_pair(n, least);
  }
  return {};
}

// Of kinds in which the rank has one group, and whose numbers are those of collectives. Open sends and receives hold up a synchronisation as
// well: kinds with a '>' before them.
StagePeers::Progress StagePeers::progress_of(std::size_t node) const {
  const RecordedRank& rank = job_[node];
  Progress out;
  std::map<std::string, int> groups;
  std::map<std::size_t, std::int64_t> oldest;
  for (const RecordedOp& op : rank.recording->pending)
    if (op.p2p) out.emplace('>' + RecordedJob::kind_of(job_.group_of(rank, op)), Calls{op.p2p_sequence - 1, 0});
    else oldest.emplace(op.group, op.sequence);
  for (const auto& [key, g] : rank.groups) {
    const std::string kind = RecordedJob::kind_of(rank.recording->groups[g]);
    const auto last = job_.last_called(node, key);
    if (++groups[kind] > 1 || !last) continue;
    const auto open = oldest.find(g);
    out[kind] = {open == oldest.end() ? *last : open->second - 1, *last};
  }
  for (const auto& [kind, count] : groups)
    if (count > 1) out.erase(kind);
  return out;
}

// How many calls fewer `a` has made than `b`, which is nowhere further on its device; 0: the comparison does not say so.
CallsBehind StagePeers::fewer_calls(const Progress& a, const Progress& b) {
  CallsBehind out;
  for (const auto& [kind, of_a] : a) {
    const auto found = b.find(kind);
    if (found == b.end() && kind.starts_with('>')) return {};   // no send is open: further
    if (found == b.end()) continue;
    if (found->second.completed > of_a.completed || found->second.made < of_a.made) return {};
    out = std::max(out, {found->second.made - of_a.made, kind});
  }
  return out;
}

}  // namespace triage::signatures
