#include "signatures/verdict/recorder/words.hpp"

#include <algorithm>
#include <map>
#include <utility>

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
  std::vector<std::pair<Reason, std::set<std::size_t>>> groups;   // in the order of their first ranks
  std::map<Reason, std::size_t> known;
  for (const std::size_t n : culprits.ranks) {
    const auto [at, fresh] = known.emplace(reason_of(n), groups.size());
    if (fresh) groups.push_back({at->first, {}});
    groups[at->second].second.insert(n);
  }
  std::vector<std::string> out;
  for (const auto& [reason, nodes] : groups)
    if (auto text = sentence(reason, nodes); !text.empty()) out.push_back(std::move(text));
  return out;
}

RecorderWords::Reason RecorderWords::reason_of(std::size_t node) const {
  using Kind = Reason::Kind;
  if (const auto stall = stalled.find(node); stall != stalled.end())
    return {Kind::stalled, call_of_group(job, {node, stall->second.in}), static_cast<std::int64_t>(stall->second.calls), {}};
  if (const auto taken = waits.not_taken.find(node); taken != waits.not_taken.end()) return {Kind::not_taken, {}, job[taken->second.node].rank, {}};
  if (const auto found = culprits.behind.find(node); found != culprits.behind.end()) return {Kind::behind, found->second.second, found->second.first, {}};
  const auto& awaited = waits.graph.waits_for(node);
  if (const auto found = culprits.missed.find(node); found != culprits.missed.end()) return {Kind::missed, call_of_group(job, found->second), 0, awaited};
  if (job[node].recording == nullptr) return {Kind::no_dump, {}, 0, awaited};
  return {Kind::waits_for_nobody, job[node].head == nullptr ? std::string() : call_text(*job[node].head), 0, awaited};
}

RecorderWords::Waiters RecorderWords::waiters_of(const Reason& reason, const std::set<std::size_t>& nodes) const {
  std::set<std::size_t> waiting;
  for (const std::size_t w : reason.waits)
    for (const std::size_t n : waits.graph.waits()[w].waiting)
      if (!nodes.contains(n)) waiting.insert(n);
  Waiters out{job.numbers(waiting), 0};
  const auto order = [&](std::size_t n) { return std::make_pair(job[n].head->p2p, job[n].head->created_ns.value_or(0)); };
  const auto first = std::min_element(waiting.begin(), waiting.end(), [&](std::size_t a, std::size_t b) { return order(a) < order(b); });
  if (first != waiting.end()) out.example = *first;
  return out;
}

std::string RecorderWords::sentence(const Reason& reason, const std::set<std::size_t>& nodes) const {
  const std::string who = ranks_text(job.numbers(nodes));
  const bool one = nodes.size() == 1;
  const std::string has = one ? " has " : " have ";
  const std::string stands_still = one ? "its own device or process stands still" : "their own devices or processes stand still";
  switch (reason.kind) {
    case Reason::Kind::stalled:
      return who + has + "not seen " + reason.call + (reason.count > 1 ? " and " + std::to_string(reason.count - 1) + " later calls" : "") +
             " complete, which other members have: " + stands_still;
    case Reason::Kind::not_taken:
      return who + (one ? " does" : " do") + " not take what rank " + std::to_string(reason.count) + (one ? " has sent it" : " has sent them") + " and gone on: " + stands_still;
    case Reason::Kind::behind:
      return who + has + "come as far as " + (one ? "its" : "their") + " peers, but" + has + "made " + std::to_string(reason.count) + " calls fewer than they in " + reason.call +
             ": " + (one ? "its process was held up itself" : "their processes were held up themselves");
    default: return about_waiters(reason, nodes);
  }
}

std::string RecorderWords::about_waiters(const Reason& reason, const std::set<std::size_t>& nodes) const {
  const std::string who = ranks_text(job.numbers(nodes));
  const bool one = nodes.size() == 1;
  const std::string it = one ? "it" : "them";
  const Waiters waiters = waiters_of(reason, nodes);
  const std::string wait = ranks_text(waiters.ranks) + (waiters.ranks.size() == 1 ? " waits" : " wait");
  if (reason.kind == Reason::Kind::missed)
    return who + " never called " + reason.call + (waiters.ranks.empty() ? "" : ", in which or before which " + wait + " for " + it) + ", and " +
           (one ? "waits in no call itself: its process was" : "wait in no call themselves: their processes were") + " held up outside of NCCL";
  if (waiters.ranks.empty()) return {};
  const std::string call = call_of_group(job, {waiters.example, job[waiters.example].head});
  if (reason.kind == Reason::Kind::no_dump) return who + " left no dump, and " + wait + " for " + it + " in " + call;
  return wait + " for " + who + " in " + call +
         (reason.call.empty() ? std::string() : (one ? ", and it waits for nobody in its own oldest open call, " : ", and they wait for nobody in their own oldest open calls, ") + reason.call);
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
