#include "signatures/verdict/recorder/waits.hpp"

#include <utility>

#include "signatures/verdict/recorder/sends.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedGroup;
using parsers::RecordedOp;
using State = RecordedOp::State;

class Waits {
 public:
  Waits(const RecordedJob& job, const StalledRanks& stalled) : job_(job), stalled_(stalled), out_{WaitGraph(job.size()), {}, {}, {}} {}

  RankWaits run() {
    for (std::size_t n = 0; n < job_.size(); ++n) {
      if (job_[n].head == nullptr || stalled_.contains(n)) continue;
      job_[n].head->p2p ? in_send(n) : in_collective(n);
    }
    return std::move(out_);
  }

 private:
  void in_collective(std::size_t n) {
    const RecordedOp& op = *job_[n].head;
    const std::string key = RecordedJob::key_of(job_.group_of(job_[n], op));
    const std::vector<std::size_t> members = job_.members(job_.group_of(job_[n], op));
    std::vector<std::size_t> missing, silent, behind, not_started;
    for (const std::size_t m : members) {
      if (m == n) continue;
      if (stalled_.contains(m)) {
        missing.push_back(m);
        continue;
      }
      const auto last = job_.last_called(m, key);
      if (!last) {
        silent.push_back(m);
      } else if (*last < op.sequence) {
        missing.push_back(m);
        out_.late.insert({n, m});
      } else if (job_.open(m, key, op.sequence)) {
        const RecordedOp* head = job_[m].head;
        const bool at_it = head != nullptr && !head->p2p && head->sequence == op.sequence && RecordedJob::key_of(job_.group_of(job_[m], *head)) == key;
        if (!at_it) behind.push_back(m);
        else if (op.state == State::started && head->state == State::scheduled) not_started.push_back(m);
      }
    }
    // Who is known to be missing explains the wait; what is only possible does not count beside it.
    for (const auto* list : {&missing, &silent, &behind, &not_started}) {
      for (const std::size_t other : *list) out_.graph.add(n, other);
      if (!list->empty()) return;
    }
    all_reached(members);
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
    if (job_[other].recording == nullptr || stalled_.contains(other)) {
      out_.graph.add(n, other);
      return;
    }
    if (match == nullptr) {
      out_.graph.add(n, other);
      out_.late.insert({n, other});
      return;
    }
    const RecordedOp& head = *job_[other].head;   // there is one: `match` is open
    const bool at_it = match == &head || same_region(*match, head) || (match->name == "send" && match->record < head.record);
    if (!at_it) {
      out_.graph.add(n, other);
      return;
    }
    // Both have made their side of it. A sender whose device has since done other things has posted it: the receiver does not take it.
    const bool sends = op.name == "send";
    const std::size_t sender = sends ? n : other, receiver = sends ? other : n;
    if (!passed(*job_[sender].recording, sends ? op : *match)) out_.reached.push_back({sender, receiver});
    else if (sends) out_.graph.add(n, other);
    else out_.not_taken.emplace(n, OpenCall{sender, match});
  }

  const RecordedJob& job_;
  const StalledRanks& stalled_;
  RankWaits out_;
};

}  // namespace

RankWaits find_waits(const RecordedJob& job, const StalledRanks& stalled) { return Waits(job, stalled).run(); }

}  // namespace triage::signatures
