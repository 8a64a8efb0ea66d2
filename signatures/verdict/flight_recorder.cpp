#include "signatures/verdict/flight_recorder.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "signatures/verdict/collective.hpp"
#include "signatures/verdict/wait_graph.hpp"
#include "signatures/verdict/words.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;
using parsers::Recording;
using State = RecordedOp::State;

// Calls that one rank may leave before the others came: rooted ones, and sends.
constexpr std::array<std::string_view, 6> kRooted = {"broadcast", "reduce", "gather", "scatter", "_broadcast_oop", "_reduce_oop"};
// Calls whose sizes differ between ranks.
constexpr std::array<std::string_view, 6> kUneven = {"all_to_all", "gather", "scatter", "all_to_allv", "alltoall_base", "all_gather"};

bool rooted(const RecordedOp& op) { return std::find(kRooted.begin(), kRooted.end(), op.name) != kRooted.end(); }
bool uneven(const RecordedOp& op) {
  return std::find(kUneven.begin(), kUneven.end(), op.name) != kUneven.end() || op.name.ends_with("coalesced");
}

std::string group_name(const RecordedGroup& group) {
  if (group.description.empty() || group.description == "undefined") return "group " + group.name;
  return group.description == "default_pg" ? group.description : group.description + " (" + group.name + ")";
}

std::string call_text(const RecordedOp& op) {
  if (op.p2p) return op.name;
  return op.name + " number " + std::to_string(op.sequence);
}

struct Node {
  int rank = 0;
  const Recording* recording = nullptr;             // null: no dump of this rank
  std::map<std::string, std::size_t> groups;        // key of the group -> index into the recording's groups
  const RecordedOp* head = nullptr;                 // what the device stands in: the oldest open call that later ones wait for, else the oldest open send
  bool stalled = false;                             // its own device or recorder stands still: others completed what it has not
  const RecordedOp* stalled_in = nullptr;
  std::size_t stalled_calls = 0;
  std::optional<std::string> stage;                 // of a pipeline; empty: not known
};

// A group as all its members tell it. Names count up alike on all ranks; two jobs in one folder differ by the members.
std::string key_of(const RecordedGroup& group) {
  return group.name + '/' + std::to_string(group.ranks.size()) + '/' + (group.ranks.empty() ? std::string() : std::to_string(group.ranks.front()));
}

// Groups of one kind are used alike: where one of them sends, all do.
std::string sends_key(const RecordedGroup& group) {
  return group.description.empty() || group.description == "undefined" ? '#' + key_of(group) : group.description;
}

// Sends run beside the calls that follow; a send coalesced with a receive is one call with it.
const RecordedOp* blocking(const Recording& recording) {
  for (const RecordedOp& op : recording.pending)
    if (!op.p2p || op.name != "send") return &op;
  return recording.pending.empty() ? nullptr : &recording.pending.front();
}

constexpr std::size_t kPeers = 256;   // limit: larger stages are not compared rank by rank
constexpr std::size_t kPosted = 16;   // limit: more open sends of one rank are not looked at one by one

// Did the device pass this open call? Calls are numbered through: one made later that is not among the open ones is complete.
bool passed(const Recording& recording, const RecordedOp& op) {
  if (!recording.newest || recording.pending_dropped) return false;
  const auto later = std::count_if(recording.pending.begin(), recording.pending.end(), [&](const RecordedOp& o) { return o.record > op.record; });
  return recording.newest->record - op.record > static_cast<std::int64_t>(later);
}

class Judge {
 public:
  explicit Judge(std::span<const RankRecording> recordings) {
    std::set<int> world;
    std::map<int, const Recording*> dumps;
    for (const auto& r : recordings) {
      if (r.recording == nullptr) continue;
      dumps.emplace(r.rank, r.recording);
      world.insert(r.rank);
      for (const auto& group : r.recording->groups) world.insert(group.ranks.begin(), group.ranks.end());
    }
    for (const int rank : world) {
      Node node;
      node.rank = rank;
      if (const auto found = dumps.find(rank); found != dumps.end()) node.recording = found->second;
      index_[rank] = nodes_.size();
      nodes_.push_back(std::move(node));
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      Node& node = nodes_[n];
      if (node.recording == nullptr) continue;
      for (std::size_t g = 0; g < node.recording->groups.size(); ++g) {
        const RecordedGroup& group = node.recording->groups[g];
        node.groups.emplace(key_of(group), g);
        if (group.has_p2p) with_sends_.insert(sends_key(group));
      }
      for (const RecordedOp& op : node.recording->pending)
        if (!op.p2p) pending_[{key_of(node.recording->groups[op.group]), op.sequence}].push_back({n, &op});
      node.head = blocking(*node.recording);
    }
    mark_stages();
  }

  std::optional<RecorderVerdict> run() {
    if (std::none_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.head != nullptr; })) return {};
    find_stalled();
    find_stalled_sends();
    const bool different = find_different() || find_different_sends();
    WaitGraph graph(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) wait_of(n, graph);
    std::set<std::size_t> culprits;
    if (different) {
      culprits = different_;
    } else {
      for (const Node& node : nodes_)
        if (node.stalled) culprits.insert(index_.at(node.rank));
      for (const auto& end : graph.ends()) take_end(end, culprits);
      find_idle(culprits);
      find_held_up(culprits);
      find_dead(culprits);
      take_suspects(culprits);
    }
    tell(graph, culprits);
    return std::move(out_);
  }

 private:
  struct Holder {
    std::size_t node = 0;
    const RecordedOp* op = nullptr;
  };

  const RecordedGroup& group_of(const Node& node, const RecordedOp& op) const { return node.recording->groups[op.group]; }

  // Number of the last collective that a rank called in a group; empty: not known.
  std::optional<std::int64_t> enqueued(const Node& node, const std::string& key) const {
    if (node.recording == nullptr) return {};
    const auto found = node.groups.find(key);
    if (found == node.groups.end()) return node.recording->has_status ? std::optional<std::int64_t>(0) : std::nullopt;
    const RecordedGroup& group = node.recording->groups[found->second];
    // pg_status counts the last work of either kind: where the group also sends, its number says nothing of collectives.
    if (group.enqueued_by_status && with_sends_.contains(sends_key(group))) return {};
    if (group.last_enqueued) return group.last_enqueued;
    return node.recording->has_status && !group.status_enqueued ? std::nullopt : std::optional<std::int64_t>(0);
  }

  bool pending(std::size_t node, const std::string& key, std::int64_t sequence) const {
    const auto found = pending_.find({key, sequence});
    return found != pending_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Holder& h) { return h.node == node; });
  }

  bool completed(std::size_t n, const std::string& key, std::int64_t sequence) const {
    const Node& node = nodes_[n];
    const auto last = enqueued(node, key);
    if (!last || *last < sequence || pending(n, key, sequence)) return false;
    if (!node.recording->pending_dropped || node.recording->pending.empty()) return true;
    const auto group = node.groups.find(key);
    return group == node.groups.end() || node.recording->pending.back().group != group->second || node.recording->pending.back().sequence > sequence;
  }

  // A collective that needs all ranks is complete on another member, so this rank took part in it; that it has not seen it complete says
  // that its device broke (events that cannot be asked) or that its watchdog and recorder stand still.
  void find_stalled() {
    for (const auto& [call, holders] : pending_) {
      const std::string& key = call.first;
      const std::int64_t sequence = call.second;
      const Holder& first = holders.front();
      if (rooted(*first.op)) continue;
      const auto& ranks = group_of(nodes_[first.node], *first.op).ranks;
      const bool done = std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
        const auto member = index_.find(rank);
        return member != index_.end() && nodes_[member->second].recording != nullptr && completed(member->second, key, sequence);
      });
      if (!done) continue;
      for (const Holder& holder : holders) {
        Node& node = nodes_[holder.node];
        node.stalled = true;
        ++node.stalled_calls;
        if (node.stalled_in == nullptr || holder.op->record < node.stalled_in->record) node.stalled_in = holder.op;
      }
    }
  }

  // The same for a send or receive: its partner has no open counterpart, and has since made a collective call that this rank made after it.
  // So the partner is past it.
  void find_stalled_sends() {
    for (std::size_t n = 0; n < nodes_.size(); ++n)
      for (const RecordedOp* op : posted(nodes_[n])) stalled_send(n, *op);
  }

  void stalled_send(std::size_t n, const RecordedOp& op) {
      Node& node = nodes_[n];
      if (node.stalled) return;
      const RecordedGroup& group = group_of(node, op);
      const auto& peers = partners(node, op);
      const bool passed = !peers.empty() && std::all_of(peers.begin(), peers.end(), [&](const Partner& partner) {
        if (partner.peer < 0 || static_cast<std::size_t>(partner.peer) >= group.ranks.size()) return false;
        const auto found = index_.find(group.ranks[static_cast<std::size_t>(partner.peer)]);
        if (found == index_.end() || found->second == n || nodes_[found->second].recording == nullptr) return false;
        const Node& other = nodes_[found->second];
        if (counterpart(other, key_of(group), op, partner.order) != nullptr) return false;
        return std::any_of(node.recording->pending.begin(), node.recording->pending.end(), [&](const RecordedOp& later) {
          if (later.p2p || later.record <= op.record) return false;
          const RecordedGroup& common = group_of(node, later);
          if (std::find(common.ranks.begin(), common.ranks.end(), other.rank) == common.ranks.end()) return false;
          const auto last = enqueued(other, key_of(common));
          return last && *last >= later.sequence;
        });
      });
      if (!passed && !sends_taken(node, op)) return;
      node.stalled = true;
      node.stalled_calls = 1;
      node.stalled_in = &op;
  }

  // The head where it is a send or receive, and the sends that were open before it: what of that kind a device has before it.
  static std::vector<const RecordedOp*> posted(const Node& node) {
    std::vector<const RecordedOp*> out;
    if (node.head == nullptr) return out;
    for (const RecordedOp& op : node.recording->pending) {
      if (op.p2p && out.size() < kPosted) out.push_back(&op);
      if (&op == node.head) break;
    }
    return out;
  }

  // Both ranks have a collective call open that they made after their sends and receives. Up to there each send has its receive, and a
  // receive that is complete has its send complete: more open sends here than open receives there, and this rank stands still.
  bool sends_taken(const Node& node, const RecordedOp& op) const {
    if (op.name != "send" || !op.to) return false;
    const RecordedGroup& group = group_of(node, op);
    if (*op.to < 0 || static_cast<std::size_t>(*op.to) >= group.ranks.size()) return false;
    const auto found = index_.find(group.ranks[static_cast<std::size_t>(*op.to)]);
    if (found == index_.end() || nodes_[found->second].recording == nullptr) return false;
    const Node& other = nodes_[found->second];
    const auto in_other = other.groups.find(key_of(group));
    if (in_other == other.groups.end()) return false;
    for (const RecordedOp& barrier : node.recording->pending) {
      if (barrier.p2p || barrier.record <= op.record) continue;
      const auto holders = pending_.find({key_of(group_of(node, barrier)), barrier.sequence});
      if (holders == pending_.end()) continue;
      for (const Holder& h : holders->second) {
        if (h.node != found->second) continue;
        const auto count = [&](const Node& where, std::size_t in_group, std::string_view name, std::int64_t before) {
          return std::count_if(where.recording->pending.begin(), where.recording->pending.end(), [&](const RecordedOp& o) {
            return o.p2p && o.group == in_group && o.name == name && o.from == op.from && o.to == op.to && o.record < before;
          });
        };
        if (count(node, op.group, "send", barrier.record) > count(other, in_other->second, "recv", h.op->record)) return true;
      }
    }
    return false;
  }

  // At one number, members that called something else than most, or with other sizes or types.
  bool find_different() {
    std::int64_t earliest = 0;
    bool found = false;
    for (const auto& [call, holders] : pending_) {
      std::map<std::string, std::vector<Holder>> kinds;
      std::map<std::size_t, std::string> by_node;
      for (const Holder& h : holders) {
        std::string& text = by_node[h.node];   // calls of one coalescing region share a number: together they are one
        if (!text.empty()) text += " + ";
        text += h.op->name;
        if (!uneven(*h.op)) text += " " + h.op->inputs + (h.op->outputs == h.op->inputs ? "" : " -> " + h.op->outputs);
      }
      for (const Holder& h : holders) {
        auto& list = kinds[by_node[h.node]];
        if (list.empty() || list.back().node != h.node) list.push_back(h);
      }
      if (kinds.size() < 2) continue;
      const std::int64_t when = holders.front().op->created_ns.value_or(0);
      if (found && when >= earliest) continue;
      found = true;
      earliest = when;
      different_.clear();
      out_.desync = true;
      const auto most = std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
      const bool tie = std::count_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.second.size() == most->second.size(); }) > 1;
      out_.reasons.clear();
      std::string said = "at number " + std::to_string(call.second) + " of " + group_name(group_of(nodes_[holders.front().node], *holders.front().op));
      for (const auto& [text, who] : kinds) {
        std::vector<int> ranks;
        for (const Holder& h : who) ranks.push_back(nodes_[h.node].rank);
        said += (text == kinds.begin()->first ? " " : ", ") + ranks_text(ranks) + " called " + text;
        if (tie || text != most->first)
          for (const Holder& h : who) different_.insert(h.node);
      }
      out_.reasons.push_back(std::move(said));
      const Holder& odd = tie ? holders.front() : kinds.begin()->first == most->first ? std::next(kinds.begin())->second.front() : kinds.begin()->second.front();
      waited_ = odd;
      if (tie) {
        different_.clear();
        out_.reasons.push_back("no majority tells which of them is wrong");
      }
    }
    return found;
  }

  // A send and its receive, both the oldest open call of their rank, of other types or with other numbers of elements. Which of the two is wrong
  // nothing tells.
  bool find_different_sends() {
    for (std::size_t n = 0; n < nodes_.size(); ++n)
      for (const RecordedOp* op : posted(nodes_[n]))
        if (op->name == "send" && op->to && !nodes_[n].stalled && different_send(n, *op)) return true;
    return false;
  }

  bool different_send(std::size_t n, const RecordedOp& op) {
      const Node& node = nodes_[n];
      const RecordedGroup& group = group_of(node, op);
      if (*op.to < 0 || static_cast<std::size_t>(*op.to) >= group.ranks.size()) return false;
      const auto found = index_.find(group.ranks[static_cast<std::size_t>(*op.to)]);
      if (found == index_.end() || found->second == n || nodes_[found->second].recording == nullptr) return false;
      const Node& other = nodes_[found->second];
      const RecordedOp* match = counterpart(other, key_of(group), op, order_of(node, op));
      if (match == nullptr || match != other.head || op.inputs.empty() || match->inputs.empty()) return false;
      const auto type = [](const std::string& sizes) { return sizes.substr(0, sizes.find('[')); };
      if (op.elements_in == match->elements_in && type(op.inputs) == type(match->inputs)) return false;
      out_.desync = true;
      different_ = {n, found->second};
      waited_ = {n, &op};
      out_.reasons.push_back("rank " + std::to_string(node.rank) + " sends " + op.inputs + " of " + group_name(group) + " where rank " + std::to_string(other.rank) + " receives " +
                             match->inputs + ": nothing tells which of them is wrong");
      return true;
  }

  // How many open ones to the same peer stand before it.
  static std::size_t order_of(const Node& node, const RecordedOp& op) {
    std::size_t order = 0;
    for (const RecordedOp& before : node.recording->pending) {
      if (&before == &op) break;
      if (before.group == op.group && before.name == op.name && before.from == op.from && before.to == op.to) ++order;
    }
    return order;
  }

  // Whom a rank waits for, by the oldest call that is not complete.
  void wait_of(std::size_t n, WaitGraph& graph) {
    const Node& node = nodes_[n];
    if (node.head == nullptr || node.stalled) return;
    node.head->p2p ? wait_of_send(n, graph) : wait_of_collective(n, graph);
  }

  void wait_of_collective(std::size_t n, WaitGraph& graph) {
    const Node& node = nodes_[n];
    const RecordedOp& op = *node.head;
    const RecordedGroup& group = group_of(node, op);
    const std::string key = key_of(group);
    std::vector<std::size_t> missing, silent, behind, not_started;
    for (const int rank : group.ranks) {
      const auto found = index_.find(rank);
      if (found == index_.end() || found->second == n) continue;
      const Node& member = nodes_[found->second];
      if (member.stalled) {
        missing.push_back(found->second);
        continue;
      }
      const auto last = enqueued(member, key);
      if (!last) {
        silent.push_back(found->second);
      } else if (*last < op.sequence) {
        missing.push_back(found->second);
        late_.insert({n, found->second});
      } else if (pending(found->second, key, op.sequence)) {
        const bool at_it = member.head != nullptr && !member.head->p2p && member.head->sequence == op.sequence &&
                           key_of(group_of(member, *member.head)) == key;
        if (!at_it) behind.push_back(found->second);
        else if (op.state == State::started && member.head->state == State::scheduled) not_started.push_back(found->second);
      }
    }
    // Who is known to be missing explains the wait; what is only possible does not count beside it.
    for (const auto* list : {&missing, &silent, &behind, &not_started}) {
      for (const std::size_t other : *list) graph.add(n, other);
      if (!list->empty()) return;
    }
    std::set<std::size_t> all, idle;   // idle: timing is on, and the device has not begun where others have
    bool begun = false;
    for (const int rank : group.ranks) {
      const auto found = index_.find(rank);
      if (found == index_.end() || nodes_[found->second].head == nullptr) continue;
      all.insert(found->second);
      if (nodes_[found->second].head->state == State::scheduled) idle.insert(found->second);
      else begun = true;
    }
    if (all.size() > 1) sets_.push_back(begun && !idle.empty() ? std::move(idle) : std::move(all));
  }

  // The k-th open send of a pair meets its k-th open receive.
  void wait_of_send(std::size_t n, WaitGraph& graph) {
    const Node& node = nodes_[n];
    const RecordedOp& op = *node.head;
    const RecordedGroup& group = group_of(node, op);
    for (const auto& [peer, order] : partners(node, op)) {
      if (peer < 0 || static_cast<std::size_t>(peer) >= group.ranks.size()) continue;
      const auto found = index_.find(group.ranks[static_cast<std::size_t>(peer)]);
      if (found == index_.end() || found->second == n) continue;
      const Node& other = nodes_[found->second];
      if (other.recording == nullptr || other.stalled) {
        graph.add(n, found->second);
        continue;
      }
      const RecordedOp* match = counterpart(other, key_of(group), op, order);
      if (match == nullptr) {
        graph.add(n, found->second);
        late_.insert({n, found->second});
        continue;
      }
      const bool at_it = match == other.head || same_region(*match, *other.head) || (match->name == "send" && match->record < other.head->record);
      if (!at_it) {
        graph.add(n, found->second);
        continue;
      }
      // Both have made their side of it. A sender whose device has since done other things has posted it: the receiver does not take it.
      const bool sends = op.name == "send";
      const std::size_t sender = sends ? n : found->second, receiver = sends ? found->second : n;
      if (passed(*nodes_[sender].recording, sends ? op : *match)) {
        if (sends) graph.add(n, found->second);
        else not_taken_.emplace(n, Holder{sender, match});
      } else {
        sets_.push_back({sender, receiver});
      }
    }
  }

  static bool same_region(const RecordedOp& a, const RecordedOp& b) { return a.p2p && b.p2p && a.group == b.group && a.p2p_sequence == b.p2p_sequence; }

  // Peers of a send or receive (of all of them in one coalescing region), each with how many open ones of the same kind stand before it.
  struct Partner {
    int peer = -1;
    std::size_t order = 0;
  };
  std::vector<Partner> partners(const Node& node, const RecordedOp& head) const {
    std::vector<Partner> out;
    for (const RecordedOp& op : node.recording->pending) {
      if (!same_region(op, head) || !op.from || !op.to) continue;
      const int peer = op.name == "send" ? *op.to : *op.from;
      if (std::none_of(out.begin(), out.end(), [&](const Partner& p) { return p.peer == peer; })) out.push_back({peer, 0});
    }
    return out;
  }

  const RecordedOp* counterpart(const Node& other, const std::string& key, const RecordedOp& op, std::size_t order) const {
    const auto found = other.groups.find(key);
    if (found == other.groups.end()) return nullptr;
    const std::string_view wanted = op.name == "send" ? "recv" : "send";
    for (const RecordedOp& candidate : other.recording->pending) {
      if (candidate.group != found->second || candidate.name != wanted || candidate.from != op.from || candidate.to != op.to) continue;
      if (order-- == 0) return &candidate;
    }
    return nullptr;
  }

  // A rank without an open call waits for nobody in NCCL. One that has not called what other members have called is held up elsewhere, even
  // where those members wait for somebody else first.
  void find_idle(std::set<std::size_t>& culprits) {
    for (const auto& [call, holders] : pending_) {
      const Holder& first = holders.front();
      for (const int rank : group_of(nodes_[first.node], *first.op).ranks) {
        const auto found = index_.find(rank);
        if (found == index_.end()) continue;
        const Node& member = nodes_[found->second];
        if (member.recording == nullptr || member.head != nullptr) continue;
        const auto last = enqueued(member, call.first);
        if (!last || *last >= call.second || nodes_[first.node].stalled) continue;
        culprits.insert(found->second);
        auto& missed = missed_[found->second];
        if (missed.op == nullptr || first.op->created_ns.value_or(INT64_MAX) < missed.op->created_ns.value_or(INT64_MAX)) missed = first;
      }
    }
  }

  // Ranks of one pipeline stage run one program. One whose peers are no further on their devices, and have made more calls all the same, does
  // not wait in a synchronisation that they would stand in too: its process is held up itself, though what it waits in first is somebody
  // else's fault. The first and the last rank are left out: programs let them alone wait for values that they print.
  void find_held_up(std::set<std::size_t>& culprits) {
    std::map<std::string, std::vector<std::size_t>> stages;
    for (std::size_t n = 0; n < nodes_.size(); ++n)
      if (nodes_[n].head != nullptr && !nodes_[n].stalled && !culprits.contains(n) && nodes_[n].stage) stages[*nodes_[n].stage].push_back(n);
    for (const auto& [stage, members] : stages) {
      if (members.size() < 3 || members.size() > kPeers) continue;
      std::vector<std::map<std::string, Progress>> progress;
      for (const std::size_t n : members) progress.push_back(progress_of(nodes_[n]));
      for (std::size_t i = 0; i < members.size(); ++i) {
        const std::size_t n = members[i];
        if (nodes_[n].rank == nodes_.front().rank || nodes_[n].rank == nodes_.back().rank) continue;
        std::size_t further = 0;
        std::pair<std::int64_t, std::string> most;
        for (std::size_t j = 0; j < members.size(); ++j)
          if (j != i)
            if (const auto fewer = fewer_calls(progress[i], progress[j]); fewer.first > 0) {
              ++further;
              most = std::max(most, fewer);
            }
        if (further < 2) continue;
        culprits.insert(n);
        behind_.emplace(n, most);
      }
    }
  }

  // Calls of one kind of group: complete without a gap, and made.
  struct Progress {
    std::int64_t completed = 0, made = 0;
  };

  // By kind of group: of kinds in which the rank has one group, and whose numbers are those of collectives. Open sends and receives hold up a
  // synchronisation as well: kinds with a '>' before them.
  std::map<std::string, Progress> progress_of(const Node& node) const {
    std::map<std::string, Progress> out;
    std::map<std::string, int> groups;
    std::map<std::size_t, std::int64_t> oldest;
    for (const RecordedOp& op : node.recording->pending)
      if (op.p2p) out.emplace('>' + sends_key(group_of(node, op)), Progress{op.p2p_sequence - 1, 0});
      else oldest.emplace(op.group, op.sequence);
    for (const auto& [key, g] : node.groups) {
      const std::string kind = sends_key(node.recording->groups[g]);
      const auto last = enqueued(node, key);
      if (++groups[kind] > 1 || !last) continue;
      const auto open = oldest.find(g);
      out[kind] = {open == oldest.end() ? *last : open->second - 1, *last};
    }
    for (const auto& [kind, count] : groups)
      if (count > 1) out.erase(kind);
    return out;
  }

  // How many calls fewer `a` has made than `b`, which is nowhere further on its device, and in which kind of group; 0: the comparison does not say so.
  static std::pair<std::int64_t, std::string> fewer_calls(const std::map<std::string, Progress>& a, const std::map<std::string, Progress>& b) {
    std::pair<std::int64_t, std::string> out;
    for (const auto& [kind, of_a] : a) {
      const auto found = b.find(kind);
      if (found == b.end() && kind.starts_with('>')) return {};   // no send is open: further
      if (found == b.end()) continue;
      if (found->second.completed > of_a.completed || found->second.made < of_a.made) return {};
      out = std::max(out, {found->second.made - of_a.made, kind});
    }
    return out;
  }

  // The stage of a pipeline: the rank's place in the groups that send. One stage, one program. Unknown where the kinds of groups are not told.
  void mark_stages() {
    bool part = false;   // Is there a group that sends and is not of all ranks? Then sends in the group of all ranks follow from it.
    for (const Node& node : nodes_)
      if (node.recording != nullptr)
        for (const auto& group : node.recording->groups) part = part || (with_sends_.contains(sends_key(group)) && group.ranks.size() < nodes_.size());
    for (Node& node : nodes_) {
      if (node.recording == nullptr) continue;
      std::string stage;
      bool known = true;
      for (const auto& group : node.recording->groups) {
        const std::string kind = sends_key(group);
        if (!with_sends_.contains(kind) || (part && group.ranks.size() == nodes_.size())) continue;
        known = known && !kind.starts_with('#');
        const auto place = std::find(group.ranks.begin(), group.ranks.end(), node.rank);
        stage += kind + '@' + std::to_string(place - group.ranks.begin()) + ' ';
      }
      if (known) node.stage = std::move(stage);
    }
  }

  // Too many dumps are missing for their ranks to have died: not all were given.
  bool many_silent() const {
    const auto silent = static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.recording == nullptr; }));
    return silent * 8 > nodes_.size();
  }

  // Whom the given dumps wait for need not be whom all wait for: one without a dump may stand in a call itself.
  void unseen(const std::set<std::size_t>& culprits) {
    const auto given = std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.recording != nullptr; });
    const std::string seen = "only " + std::to_string(given) + " of " + std::to_string(nodes_.size()) + " ranks left a dump: ";
    if (out_.desync && !culprits.empty()) {
      out_.proven = false;
      out_.reasons.push_back(seen + "what most of these called need not be what most ranks called; the dumps of the others would tell");
      return;
    }
    std::vector<int> ranks;
    for (const std::size_t n : culprits)
      if (nodes_[n].recording == nullptr) ranks.push_back(nodes_[n].rank);
    if (ranks.empty()) return;
    out_.proven = false;
    out_.reasons.push_back(seen + ranks_text(ranks) +
                           " may wait for another rank; the dump of " + ranks_text(ranks) + " would tell, and then those of the ranks that it waits for");
  }

  // A time-out makes every living rank dump. Few ranks without a dump, in groups with open calls, are dead; many: not all dumps were given.
  void find_dead(std::set<std::size_t>& culprits) const {
    if (many_silent()) return;
    for (const auto& [call, holders] : pending_) {
      const Holder& first = holders.front();
      for (const int rank : group_of(nodes_[first.node], *first.op).ranks)
        if (const auto found = index_.find(rank); found != index_.end() && nodes_[found->second].recording == nullptr) culprits.insert(found->second);
    }
  }

  // The end of all waiting: one rank that waits for nobody, or ranks that wait for one another.
  void take_end(const std::vector<std::size_t>& end, std::set<std::size_t>& culprits) {
    if (end.size() == 1) {
      const Node& node = nodes_[end.front()];
      if (node.head == nullptr || node.stalled) culprits.insert(end.front());
      return;
    }
    // Sends are matched by count, which a rank whose device stands still can shift: the circle is then one of the counts, and one of its ranks
    // stands still.
    if (std::any_of(end.begin(), end.end(), [&](std::size_t n) { return nodes_[n].head != nullptr && nodes_[n].head->p2p; })) {
      circles_.insert(std::set<std::size_t>(end.begin(), end.end()));
      sets_.emplace_back(end.begin(), end.end());
      return;
    }
    std::vector<int> ranks;
    for (const std::size_t n : end) ranks.push_back(nodes_[n].rank);
    std::set<std::size_t> late;   // that others wait for because they did not call
    for (const std::size_t n : end)
      if (std::any_of(late_.begin(), late_.end(), [&](const auto& pair) { return pair.second == n; })) late.insert(n);
    if (late.empty() || late.size() == end.size()) {
      culprits.insert(end.begin(), end.end());
      out_.reasons.push_back(ranks_text(ranks) + " wait for one another: they made their calls in different orders");
    } else {
      culprits.insert(late.begin(), late.end());
    }
  }

  // Ranks that stand in a call which all its members have reached: one of them does not carry it out, and the dumps alone do not tell which. Who
  // is named already explains the sets that hold it; a set inside another explains that; who has made fewer calls than all others of a set, which
  // run the same program, is the one.
  void take_suspects(std::set<std::size_t>& culprits) {
    for (const auto& [n, sender] : not_taken_) culprits.insert(n);
    std::sort(sets_.begin(), sets_.end(), [](const auto& a, const auto& b) { return std::make_pair(a.size(), a) < std::make_pair(b.size(), b); });
    std::vector<std::set<std::size_t>> kept;
    for (const auto& set : sets_) {
      const auto holds = [&](const std::set<std::size_t>& inner) { return std::includes(set.begin(), set.end(), inner.begin(), inner.end()); };
      if (std::any_of(culprits.begin(), culprits.end(), [&](std::size_t n) { return set.contains(n); }) || std::any_of(kept.begin(), kept.end(), holds)) continue;
      if (set.size() == 1) culprits.insert(*set.begin());
      else if (const auto fewest = with_fewest_calls(set)) culprits.insert(*fewest);
      else kept.push_back(set);
    }
    for (const auto& set : kept) {
      together_.insert(set.begin(), set.end());
      out_.fault.one_of.push_back(ranks_of(set));
    }
  }

  std::optional<std::size_t> with_fewest_calls(const std::set<std::size_t>& set) {
    if (set.size() > kPeers) return {};
    for (const std::size_t n : set)
      if (!nodes_[n].stage || nodes_[n].stage != nodes_[*set.begin()].stage) return {};
    std::vector<std::map<std::string, Progress>> progress;
    for (const std::size_t n : set) progress.push_back(progress_of(nodes_[n]));
    std::size_t i = 0;
    for (const std::size_t n : set) {
      std::pair<std::int64_t, std::string> least{INT64_MAX, {}};
      for (std::size_t j = 0; j < progress.size(); ++j)
        if (j != i) least = std::min(least, fewer_calls(progress[i], progress[j]));
      ++i;
      if (least.first <= 0) continue;
      behind_.emplace(n, least);
      return n;
    }
    return {};
  }

  std::vector<int> ranks_of(const std::set<std::size_t>& nodes) const {
    std::vector<int> out;
    for (const std::size_t n : nodes) out.push_back(nodes_[n].rank);
    return out;
  }

  void tell(const WaitGraph& graph, const std::set<std::size_t>& culprits) {
    CollectiveFault& fault = out_.fault;
    fault.culprit_ranks = ranks_of(culprits);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].recording == nullptr) fault.silent_ranks.push_back(nodes_[n].rank);
      else if (nodes_[n].head != nullptr && !culprits.contains(n)) fault.waiting_ranks.push_back(nodes_[n].rank);
    }
    choose_waited(graph, culprits);
    if (waited_.op != nullptr) {
      const RecordedGroup& group = group_of(nodes_[waited_.node], *waited_.op);
      fault.operation = waited_.op->name;
      fault.process_group = group_name(group);
      fault.sequence = waited_.op->p2p ? waited_.op->p2p_sequence : waited_.op->sequence;
      fault.sizes = waited_.op->inputs == waited_.op->outputs || waited_.op->outputs.empty() ? waited_.op->inputs : waited_.op->inputs + " -> " + waited_.op->outputs;
      out_.waited = waited_.op;
    }
    if (!out_.desync)
      for (const std::size_t n : culprits) explain(n, graph);
    if (many_silent()) unseen(culprits);
    if (!out_.desync) explain_together();
    witness(culprits);
  }

  // The earliest call that somebody waits in for a culprit directly; else a culprit's own.
  void choose_waited(const WaitGraph& graph, const std::set<std::size_t>& culprits) {
    if (waited_.op != nullptr) return;
    const auto better = [&](const RecordedOp* op) { return waited_.op == nullptr || op->created_ns.value_or(INT64_MAX) < waited_.op->created_ns.value_or(INT64_MAX); };
    // Calls that the culprit never made come first, then collectives, then sends.
    for (const int pass : {0, 1, 2}) {
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].head == nullptr || nodes_[n].stalled || (pass == 1 && nodes_[n].head->p2p)) continue;
        const auto& awaited = graph.awaited_by(n);
        const bool direct = std::any_of(awaited.begin(), awaited.end(), [&](std::size_t other) {
          return culprits.contains(other) && (pass > 0 || (late_.contains({n, other}) && !nodes_[n].head->p2p));
        });
        if ((direct || culprits.empty()) && better(nodes_[n].head)) waited_ = {n, nodes_[n].head};
      }
      if (waited_.op != nullptr) return;
    }
    for (const std::size_t n : culprits) {
      const RecordedOp* op = nodes_[n].stalled_in != nullptr ? nodes_[n].stalled_in : nodes_[n].head;
      if (op != nullptr && better(op)) waited_ = {n, op};
    }
  }

  void explain(std::size_t n, const WaitGraph& graph) {
    const Node& node = nodes_[n];
    const std::string rank = "rank " + std::to_string(node.rank);
    if (node.stalled) {
      out_.reasons.push_back(rank + " has not seen " + call_text(*node.stalled_in) + " of " + group_name(group_of(node, *node.stalled_in)) +
                             (node.stalled_calls > 1 ? " and " + std::to_string(node.stalled_calls - 1) + " later calls" : "") +
                             " complete, which other members have: its own device or process stands still");
      return;
    }
    if (const auto taken = not_taken_.find(n); taken != not_taken_.end()) {
      out_.reasons.push_back(rank + " does not take what rank " + std::to_string(nodes_[taken->second.node].rank) + " has sent it and gone on: its own device or process stands still");
      return;
    }
    if (const auto behind = behind_.find(n); behind != behind_.end()) {
      out_.reasons.push_back(rank + " has come as far as its peers, but has made " + std::to_string(behind->second.first) +
                             " calls fewer than they in " + behind->second.second + ": its process was held up itself");
      return;
    }
    std::vector<int> waiters;
    std::size_t example = nodes_.size();
    for (std::size_t w = 0; w < nodes_.size(); ++w) {
      const auto& awaited = graph.awaited_by(w);
      if (std::find(awaited.begin(), awaited.end(), n) == awaited.end()) continue;
      waiters.push_back(nodes_[w].rank);
      const auto order = [&](std::size_t i) { return std::make_pair(nodes_[i].head->p2p, nodes_[i].head->created_ns.value_or(0)); };
      if (example == nodes_.size() || order(w) < order(example)) example = w;
    }
    if (const auto missed = missed_.find(n); missed != missed_.end()) {
      out_.reasons.push_back(rank + " never called " + call_text(*missed->second.op) + " of " + group_name(group_of(nodes_[missed->second.node], *missed->second.op)) +
                             (waiters.empty() ? "" : ", in which or before which " + ranks_text(waiters) + " wait for it") +
                             ", and waits in no call itself: its process was held up outside of NCCL");
      return;
    }
    if (example == nodes_.size()) return;
    const RecordedOp& op = *nodes_[example].head;
    const std::string call = call_text(op) + " of " + group_name(group_of(nodes_[example], op));
    if (node.recording == nullptr) {
      out_.reasons.push_back(rank + " left no dump, and " + ranks_text(waiters) + " wait for it in " + call);
    } else {
      out_.reasons.push_back(ranks_text(waiters) + (waiters.size() == 1 ? " waits" : " wait") + " for " + rank + " in " + call +
                             (node.head == nullptr ? std::string() : ", and it waits for nobody in its own oldest open call, " + call_text(*node.head)));
    }
  }

  void explain_together() {
    for (const auto& ranks : out_.fault.one_of) {
      const std::string one = "one of " + ranks_text(ranks) + ": ";
      if (is_circle(ranks)) {
        out_.reasons.push_back(one + "they wait for one another in sends, receives and collectives; the dumps do not tell whose device stands still");
        continue;
      }
      const Node& node = nodes_[index_.at(ranks.front())];
      const std::string who = node.head->p2p ? "the sender and the receiver of " : "all members called ";
      out_.reasons.push_back(one + who + unfinished(node) + "; the dumps do not tell whose device or link stands still");
    }
    if (out_.fault.one_of.empty() || is_circle(out_.fault.one_of.front())) return;
    const auto& first = out_.fault.one_of.front();
    out_.fault.note = "all members called " + unfinished(nodes_[index_.at(first.front())]) + " (" + ranks_text(first) + "): the network, NCCL or one of their devices";
  }

  bool is_circle(const std::vector<int>& ranks) const {
    std::set<std::size_t> set;
    for (const int rank : ranks) set.insert(index_.at(rank));
    return circles_.contains(set);
  }

  // "all_reduce number 7 of group X and none finished it"
  std::string unfinished(const Node& node) const { return call_text(*node.head) + " of " + group_name(group_of(node, *node.head)) + " and none finished it"; }

  void witness(const std::set<std::size_t>& culprits) {
    for (const std::size_t n : culprits)
      if (nodes_[n].recording != nullptr) {
        out_.witness = nodes_[n].rank;
        if (nodes_[n].recording->newest) out_.stack = nodes_[n].recording->newest->frames;
        break;
      }
    if (!out_.witness && waited_.op != nullptr) out_.witness = nodes_[waited_.node].rank;
    if (out_.stack.empty() && waited_.op != nullptr) out_.stack = waited_.op->frames;
  }

  std::vector<Node> nodes_;                                                    // by rank
  std::map<int, std::size_t> index_;
  std::map<std::pair<std::string, std::int64_t>, std::vector<Holder>> pending_;   // (group, number) -> who has it open
  std::set<std::string> with_sends_;                                           // kinds of groups that some rank sends in
  std::set<std::pair<std::size_t, std::size_t>> late_;                         // (waiter, who did not call)
  std::vector<std::set<std::size_t>> sets_;                                    // who stands in a call that all have reached, by call
  std::set<std::set<std::size_t>> circles_;                                    // of them: who waits for one another by sends and receives
  std::set<std::size_t> together_;                                             // of the sets that are told
  std::map<std::size_t, Holder> not_taken_;                                    // receiver -> who has sent to it, and gone on
  std::set<std::size_t> different_;
  std::map<std::size_t, std::pair<std::int64_t, std::string>> behind_;         // rank -> calls that it is behind its peers, in which group
  std::map<std::size_t, Holder> missed_;                                       // idle rank -> the earliest call that it did not make
  Holder waited_;
  RecorderVerdict out_;
};

}  // namespace

std::optional<RecorderVerdict> judge_recordings(std::span<const RankRecording> recordings) { return Judge(recordings).run(); }

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
