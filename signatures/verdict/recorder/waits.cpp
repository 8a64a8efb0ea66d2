#include "signatures/verdict/recorder/waits.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "signatures/verdict/recorder/sends.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;
using State = RecordedOp::State;

class Waits {
 public:
  Waits(const RecordedJob& job, const StalledRanks& stalled) : job_(job), stalled_(stalled), out_{WaitGraph(job.size()), {}, {}} {}

  RankWaits run() {
    for (std::size_t n = 0; n < job_.size(); ++n) {
      if (job_[n].head == nullptr || stalled_.contains(n)) continue;
      job_[n].head->p2p ? in_send(n) : in_collective(n);
    }
    return std::move(out_);
  }

 private:
  // Whom others may wait for in one call, for one reason.
  struct Awaited {
    std::vector<std::size_t> ranks;
    bool late = false;                            // they have not made it
    std::optional<std::size_t> wait;              // in the graph, once somebody waits for them
  };

  // How the members of a group stand to one call of it: the same for all that wait in it.
  struct Call {
    std::vector<int> ranks;                       // of the group
    std::vector<std::size_t> members;
    Awaited late{{}, true, {}};                   // have not made it
    Awaited stalled;                              // stand still
    Awaited silent;                               // left no dump that tells
    Awaited behind;                               // stand in an earlier call
    Awaited not_started;                          // stand in it, and their device has not begun it
    bool reached = false;                         // it is among out_.reached
  };

  void in_collective(std::size_t n) {
    const RecordedOp& op = *job_[n].head;
    Call& call = call_of(job_.group_of(job_[n], op), op.sequence);
    const bool for_late = wait_for(n, call.late), for_stalled = wait_for(n, call.stalled);
    // Who is known to be missing explains the wait; what is only possible does not count beside it.
    if (for_late || for_stalled || wait_for(n, call.silent) || wait_for(n, call.behind)) return;
    if (op.state == State::started && wait_for(n, call.not_started)) return;
    if (!std::exchange(call.reached, true)) all_reached(call.members);
  }

  bool wait_for(std::size_t n, Awaited& whom) {
    if (!holds_other(whom.ranks, n)) return false;
    if (!whom.wait) whom.wait = out_.graph.add(whom.ranks, whom.late);
    out_.graph.join(n, *whom.wait);
    return true;
  }

  void wait_for(std::size_t n, std::size_t other, bool late) { out_.graph.join(n, out_.graph.add({other}, late)); }

  // A key names the members in short: two groups of one key may still differ in a damaged dump.
  Call& call_of(const RecordedGroup& group, std::int64_t sequence) {
    const std::string key = RecordedJob::key_of(group);
    std::vector<Call>& known = calls_[{key, sequence}];
    for (Call& call : known)
      if (call.ranks == group.ranks) return call;
    Call& call = known.emplace_back();
    call.ranks = group.ranks;
    call.members = job_.members(group);
    std::sort(call.members.begin(), call.members.end());
    call.members.erase(std::unique(call.members.begin(), call.members.end()), call.members.end());   // a damaged dump may list one twice
    for (const std::size_t m : call.members) place(m, key, sequence, call);
    return call;
  }

  void place(std::size_t m, const std::string& key, std::int64_t sequence, Call& call) const {
    if (stalled_.contains(m)) return call.stalled.ranks.push_back(m);
    const auto last = job_.last_called(m, key);
    if (!last) return call.silent.ranks.push_back(m);
    if (*last < sequence) return call.late.ranks.push_back(m);
    if (!job_.open(m, key, sequence)) return;
    const RecordedOp* head = job_[m].head;
    const bool at_it = head != nullptr && !head->p2p && head->sequence == sequence && RecordedJob::key_of(job_.group_of(job_[m], *head)) == key;
    if (!at_it) call.behind.ranks.push_back(m);
    else if (head->state == State::scheduled) call.not_started.ranks.push_back(m);
  }

  void all_reached(const std::vector<std::size_t>& members) {
    std::set<std::size_t> all, idle;   // idle: timing is on, and the device has not begun where others have
    bool begun = false;
    for (const std::size_t m : members) {
      if (job_[m].head == nullptr) continue;
      all.insert(m);
      if (job_[m].head->state == State::scheduled) idle.insert(m);
      else begun = true;
    }
    if (all.size() > 1) out_.reached.push_back(begun && !idle.empty() ? std::move(idle) : std::move(all));
  }

  void in_send(std::size_t n) {
    const RecordedOp& op = *job_[n].head;
    const RecordedGroup& group = job_.group_of(job_[n], op);
    for (const SendPartner& partner : partners(job_[n], op)) {
      const auto found = job_.at_place(group, partner.peer);
      if (found && *found != n) for_partner(n, op, *found, counterpart_on(*found, group, op, partner.order));
    }
  }

  const RecordedOp* counterpart_on(std::size_t other, const RecordedGroup& group, const RecordedOp& op, std::size_t order) const {
    return job_[other].recording == nullptr ? nullptr : counterpart(job_[other], RecordedJob::key_of(group), op, order);
  }

  void for_partner(std::size_t n, const RecordedOp& op, std::size_t other, const RecordedOp* match) {
    if (job_[other].recording == nullptr || stalled_.contains(other)) return wait_for(n, other, false);
    if (match == nullptr) return wait_for(n, other, true);
    const RecordedOp& head = *job_[other].head;   // there is one: `match` is open
    const bool at_it = match == &head || same_region(*match, head) || (match->name == "send" && match->record < head.record);
    if (!at_it) return wait_for(n, other, false);
    // Both have made their side of it. A sender whose device has since done other things has posted it: the receiver does not take it.
    const bool sends = op.name == "send";
    const std::size_t sender = sends ? n : other, receiver = sends ? other : n;
    if (!passed(*job_[sender].recording, sends ? op : *match)) out_.reached.push_back({sender, receiver});
    else if (sends) wait_for(n, other, false);
    else out_.not_taken.emplace(n, OpenCall{sender, match});
  }

  const RecordedJob& job_;
  const StalledRanks& stalled_;
  std::map<std::pair<std::string, std::int64_t>, std::vector<Call>> calls_;   // by group and number
  RankWaits out_;
};

}  // namespace

RankWaits find_waits(const RecordedJob& job, const StalledRanks& stalled) { return Waits(job, stalled).run(); }

}  // namespace triage::signatures
