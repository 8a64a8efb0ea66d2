#include "signatures/verdict/recorder/words.hpp"

#include <algorithm>

#include "signatures/verdict/collective.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;

std::string call_of_group(const RecordedJob& job, const OpenCall& call) { return call_text(*call.op) + " of " + group_name(job.group_of(call)); }

std::string only_some(const RecordedJob& job) {
  const auto given = std::count_if(job.ranks().begin(), job.ranks().end(), [](const RecordedRank& r) { return r.recording != nullptr; });
  return "only " + std::to_string(given) + " of " + std::to_string(job.size()) + " ranks left a dump: ";
}

}  // namespace

std::string group_name(const RecordedGroup& group) {
  if (group.description.empty() || group.description == "undefined") return "group " + group.name;
  return group.description == "default_pg" ? group.description : group.description + " (" + group.name + ")";
}

std::string call_text(const RecordedOp& op) {
  if (op.p2p) return op.name;
  return op.name + " number " + std::to_string(op.sequence);
}

std::vector<std::string> RecorderWords::crossed() const {
  std::vector<std::string> out;
  for (const auto& circle : culprits.crossed) {
    std::vector<int> ranks;
    for (const std::size_t n : circle) ranks.push_back(job[n].rank);
    out.push_back(ranks_text(ranks) + " wait for one another: they made their calls in different orders");
  }
  return out;
}

std::vector<std::string> RecorderWords::named() const {
  std::vector<std::string> out;
  for (const std::size_t n : culprits.ranks)
    if (auto text = why(n); !text.empty()) out.push_back(std::move(text));
  return out;
}

std::string RecorderWords::why(std::size_t node) const {
  const std::string rank = "rank " + std::to_string(job[node].rank);
  if (const auto stall = stalled.find(node); stall != stalled.end())
    return rank + " has not seen " + call_of_group(job, {node, stall->second.in}) +
           (stall->second.calls > 1 ? " and " + std::to_string(stall->second.calls - 1) + " later calls" : "") +
           " complete, which other members have: its own device or process stands still";
  if (const auto taken = waits.not_taken.find(node); taken != waits.not_taken.end())
    return rank + " does not take what rank " + std::to_string(job[taken->second.node].rank) + " has sent it and gone on: its own device or process stands still";
  if (const auto behind = culprits.behind.find(node); behind != culprits.behind.end())
    return rank + " has come as far as its peers, but has made " + std::to_string(behind->second.first) + " calls fewer than they in " + behind->second.second +
           ": its process was held up itself";
  return waited_for(node);
}

// By the ranks that wait for it directly; the example is the earliest collective among their calls, else the earliest send.
std::string RecorderWords::waited_for(std::size_t node) const {
  std::vector<int> waiters;
  std::size_t example = job.size();
  const auto order = [&](std::size_t n) { return std::make_pair(job[n].head->p2p, job[n].head->created_ns.value_or(0)); };
  for (std::size_t w = 0; w < job.size(); ++w) {
    const auto& awaited = waits.graph.awaited_by(w);
    if (std::find(awaited.begin(), awaited.end(), node) == awaited.end()) continue;
    waiters.push_back(job[w].rank);
    if (example == job.size() || order(w) < order(example)) example = w;
  }
  if (const auto missed = culprits.missed.find(node); missed != culprits.missed.end())
    return "rank " + std::to_string(job[node].rank) + " never called " + call_of_group(job, missed->second) +
           (waiters.empty() ? "" : ", in which or before which " + ranks_text(waiters) + " wait for it") +
           ", and waits in no call itself: its process was held up outside of NCCL";
  return example == job.size() ? std::string() : waiting_for(node, waiters, example);
}

std::string RecorderWords::waiting_for(std::size_t node, const std::vector<int>& waiters, std::size_t example) const {
  const std::string rank = "rank " + std::to_string(job[node].rank);
  const std::string call = call_of_group(job, {example, job[example].head});
  if (job[node].recording == nullptr) return rank + " left no dump, and " + ranks_text(waiters) + " wait for it in " + call;
  return ranks_text(waiters) + (waiters.size() == 1 ? " waits" : " wait") + " for " + rank + " in " + call +
         (job[node].head == nullptr ? std::string() : ", and it waits for nobody in its own oldest open call, " + call_text(*job[node].head));
}

std::vector<std::string> RecorderWords::together() const {
  std::vector<std::string> out;
  for (const auto& set : culprits.one_of) {
    const std::string one = "one of " + ranks_text(job.numbers(set)) + ": ";
    if (culprits.circles.contains(set)) {
      out.push_back(one + "they wait for one another in sends, receives and collectives; the dumps do not tell whose device stands still");
      continue;
    }
    const std::string who = job[*set.begin()].head->p2p ? "the sender and the receiver of " : "all members called ";
    out.push_back(one + who + unfinished(set) + "; the dumps do not tell whose device or link stands still");
  }
  return out;
}

std::string RecorderWords::together_note() const {
  if (culprits.one_of.empty() || culprits.circles.contains(culprits.one_of.front())) return {};
  const auto& first = culprits.one_of.front();
  return "all members called " + unfinished(first) + " (" + ranks_text(job.numbers(first)) + "): the network, NCCL or one of their devices";
}

// "all_reduce number 7 of group X and none finished it"
std::string RecorderWords::unfinished(const std::set<std::size_t>& set) const {
  return call_of_group(job, {*set.begin(), job[*set.begin()].head}) + " and none finished it";
}

std::string unseen_text(const RecordedJob& job, const std::vector<int>& unseen) {
  const std::string ranks = ranks_text(unseen);
  return only_some(job) + ranks + " may wait for another rank; the dump of " + ranks + " would tell, and then those of the ranks that it waits for";
}

std::string unseen_majority_text(const RecordedJob& job) {
  return only_some(job) + "what most of these called need not be what most ranks called; the dumps of the others would tell";
}

std::string recording_text(const parsers::Recording& recording, std::optional<int> rank) {
  std::string out = "flight recorder";
  if (rank) out += " of rank " + std::to_string(*rank);
  out += ": ";
  if (recording.pending.empty()) {
    out += "no call is open";
  } else {
    const RecordedOp& op = recording.pending.front();
    out += std::to_string(recording.pending.size()) + (recording.pending_dropped ? " or more" : "") + " calls are open, the oldest is " + call_text(op) + " of " +
           group_name(recording.groups[op.group]);
    if (!op.inputs.empty()) out += " " + op.inputs;
  }
  if (recording.newest) out += "; the newest is " + call_text(*recording.newest) + " of " + group_name(recording.groups[recording.newest->group]);
  return out;
}

}  // namespace triage::signatures
