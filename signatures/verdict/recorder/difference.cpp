#include "signatures/verdict/recorder/difference.hpp"

#include <algorithm>
#include <array>

#include "signatures/verdict/collective.hpp"
#include "signatures/verdict/recorder/sends.hpp"
#include "signatures/verdict/recorder/words.hpp"
#include "signatures/verdict/words.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;
using CallsByText = std::map<std::string, std::vector<OpenCall>>;

// Calls whose sizes differ between ranks.
constexpr std::array<std::string_view, 6> kUneven = {"all_to_all", "gather", "scatter", "all_to_allv", "alltoall_base", "all_gather"};

bool uneven(const RecordedOp& op) { return one_of(op.name, kUneven) || op.name.ends_with("coalesced"); }

// What each rank called at one number. Calls of one coalescing region share a number: together they are one.
CallsByText by_text(const std::vector<OpenCall>& holders) {
  std::map<std::size_t, std::string> by_node;
  for (const OpenCall& h : holders) {
    std::string& text = by_node[h.node];
    if (!text.empty()) text += " + ";
    text += h.op->name;
    if (!uneven(*h.op)) text += " " + h.op->inputs + (h.op->outputs == h.op->inputs ? "" : " -> " + h.op->outputs);
  }
  CallsByText out;
  for (const OpenCall& h : holders) {
    auto& list = out[by_node[h.node]];
    if (list.empty() || list.back().node != h.node) list.push_back(h);
  }
  return out;
}

// Members that called something else than most, or with other sizes or types.
CallDifference difference_at(const RecordedJob& job, const OpenCall& first, std::int64_t number, const CallsByText& kinds) {
  CallDifference out;
  const auto most = std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const bool tie = std::count_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.second.size() == most->second.size(); }) > 1;
  std::string said = "at number " + std::to_string(number) + " of " + group_name(job.group_of(first));
  for (const auto& [text, who] : kinds) {
    std::vector<int> ranks;
    for (const OpenCall& h : who) ranks.push_back(job[h.node].rank);
    said += (text == kinds.begin()->first ? " " : ", ") + ranks_text(ranks) + " called " + text;
    if (!tie && text != most->first)
      for (const OpenCall& h : who) out.odd.insert(h.node);
  }
  out.reasons.push_back(std::move(said));
  if (tie) out.reasons.push_back("no majority tells which of them is wrong");
  const auto other = kinds.begin() == most ? std::next(kinds.begin()) : kinds.begin();
  out.at = tie ? first : other->second.front();
  return out;
}

std::optional<CallDifference> different_collective(const RecordedJob& job) {
  std::optional<CallDifference> out;
  std::int64_t earliest = 0;
  for (const auto& [call, holders] : job.collectives()) {
    const CallsByText kinds = by_text(holders);
    const std::int64_t when = holders.front().op->created_ns.value_or(0);
    if (kinds.size() < 2 || (out && when >= earliest)) continue;
    earliest = when;
    out = difference_at(job, holders.front(), call.second, kinds);
  }
  return out;
}

// A send and its receive, both the oldest open call of their rank, of other types or with other numbers of elements. Which of the two is wrong
// nothing tells.
std::optional<CallDifference> different_send(const RecordedJob& job, std::size_t n, const RecordedOp& op) {
  const RecordedRank& rank = job[n];
  const RecordedGroup& group = job.group_of(rank, op);
  const auto found = job.at_place(group, *op.to);
  if (!found || *found == n || job[*found].recording == nullptr) return {};
  const RecordedRank& other = job[*found];
  const RecordedOp* match = counterpart(other, RecordedJob::key_of(group), op, order_of(rank, op));
  if (match == nullptr || match != other.head || op.inputs.empty() || match->inputs.empty()) return {};
  const auto type = [](const std::string& sizes) { return sizes.substr(0, sizes.find('[')); };
  if (op.elements_in == match->elements_in && type(op.inputs) == type(match->inputs)) return {};
  return CallDifference{{n, *found},
                        {n, &op},
                        {"rank " + std::to_string(rank.rank) + " sends " + op.inputs + " of " + group_name(group) + " where rank " + std::to_string(other.rank) +
                         " receives " + match->inputs + ": nothing tells which of them is wrong"}};
}

}  // namespace

std::optional<CallDifference> find_difference(const RecordedJob& job, const StalledRanks& stalled) {
  if (auto found = different_collective(job)) return found;
  for (std::size_t n = 0; n < job.size(); ++n)
    for (const RecordedOp* op : posted(job[n]))
      if (op->name == "send" && op->to && !stalled.contains(n))
        if (auto found = different_send(job, n, *op)) return found;
  return {};
}

}  // namespace triage::signatures
