#include "signatures/verdict/recorder/culprits.hpp"

#include <algorithm>

namespace triage::signatures {
namespace {

class Culprits {
 public:
  Culprits(const RecordedJob& job, const StalledRanks& stalled, const RankWaits& waits) : job_(job), stalled_(stalled), waits_(waits), peers_(job) {}

  RecorderCulprits run() {
    for (const auto& [n, stall] : stalled_) out_.ranks.insert(n);
    reached_ = waits_.reached;
    for (const auto& end : waits_.graph.ends()) take_end(end);
    take_idle();
    take_held_up();
    take_dead();
    take_reached();
    return std::move(out_);
  }

 private:
  // The end of all waiting: one rank that waits for nobody, or ranks that wait for one another.
  void take_end(const std::vector<std::size_t>& end) {
    if (end.size() == 1) {
      if (job_[end.front()].head == nullptr || stalled_.contains(end.front())) out_.ranks.insert(end.front());
      return;
    }
    // Sends are matched by count, which a rank whose device stands still can shift: the circle is then one of the counts, and one of its ranks
    // stands still.
    if (std::any_of(end.begin(), end.end(), [&](std::size_t n) { return job_[n].head != nullptr && job_[n].head->p2p; })) {
      out_.circles.insert(std::set<std::size_t>(end.begin(), end.end()));
      reached_.emplace_back(end.begin(), end.end());
      return;
    }
    std::set<std::size_t> late;   // that others wait for because they did not call
    for (const std::size_t n : end)
      if (is_late(n)) late.insert(n);
    if (late.empty() || late.size() == end.size()) {
      out_.ranks.insert(end.begin(), end.end());
      out_.crossed.push_back(end);
    } else {
      out_.ranks.insert(late.begin(), late.end());
    }
  }

  bool is_late(std::size_t n) const {
    const auto& awaited = waits_.graph.waits_for(n);
    return std::any_of(awaited.begin(), awaited.end(), [&](std::size_t w) {
      const Wait& wait = waits_.graph.waits()[w];
      return wait.late && holds_other(wait.waiting, n);
    });
  }

  // A rank without an open call waits for nobody in NCCL. One that has not called what other members have called is held up elsewhere, even
  // where those members wait for somebody else first.
  void take_idle() {
    for (const auto& [call, holders] : job_.collectives()) {
      const OpenCall& first = holders.front();
      if (stalled_.contains(first.node)) continue;
      for (const std::size_t n : job_.members(job_.group_of(first))) {
        if (job_[n].recording == nullptr || job_[n].head != nullptr) continue;
        const auto last = job_.last_called(n, call.first);
        if (!last || *last >= call.second) continue;
        out_.ranks.insert(n);
        OpenCall& missed = out_.missed[n];
        if (missed.op == nullptr || first.op->created_ns.value_or(INT64_MAX) < missed.op->created_ns.value_or(INT64_MAX)) missed = first;
      }
    }
  }

  // One whose peers have made more calls, and are no further on their devices, does not wait in a synchronisation that they would stand in
  // too: its process is held up itself, though what it waits in first is somebody else's fault.
  void take_held_up() {
    std::set<std::size_t> candidates;
    for (std::size_t n = 0; n < job_.size(); ++n)
      if (job_[n].head != nullptr && !stalled_.contains(n) && !out_.ranks.contains(n)) candidates.insert(n);
    for (const auto& [n, behind] : peers_.held_up(candidates)) {
      out_.ranks.insert(n);
      out_.behind.emplace(n, behind);
    }
  }

  // A time-out makes every living rank dump. Few ranks without a dump, in groups with open calls, are dead; many: not all dumps were given.
  void take_dead() {
    if (job_.many_silent()) return;
    for (const auto& [call, holders] : job_.collectives())
      for (const std::size_t n : job_.members(job_.group_of(holders.front())))
        if (job_[n].recording == nullptr) out_.ranks.insert(n);
  }

  // Ranks that stand in a call which all its members have reached: one of them does not carry it out, and the dumps alone do not tell which. Who
  // is named already explains the sets that hold it; a set inside another explains that; who has made fewer calls than all others of a set, which
  // run the same program, is the one.
  void take_reached() {
    for (const auto& [n, sender] : waits_.not_taken) out_.ranks.insert(n);
    std::sort(reached_.begin(), reached_.end(), [](const auto& a, const auto& b) { return std::make_pair(a.size(), a) < std::make_pair(b.size(), b); });
    for (const auto& set : reached_) {
      const auto holds = [&](const std::set<std::size_t>& inner) { return std::includes(set.begin(), set.end(), inner.begin(), inner.end()); };
      if (std::any_of(out_.ranks.begin(), out_.ranks.end(), [&](std::size_t n) { return set.contains(n); })) continue;
      if (std::any_of(out_.one_of.begin(), out_.one_of.end(), holds)) continue;
      if (set.size() == 1) {
        out_.ranks.insert(*set.begin());
      } else if (const auto fewest = peers_.with_fewest_calls(set)) {
        out_.ranks.insert(fewest->first);
        out_.behind.insert(*fewest);
      } else {
        out_.one_of.push_back(set);
      }
    }
  }

  const RecordedJob& job_;
  const StalledRanks& stalled_;
  const RankWaits& waits_;
  const StagePeers peers_;
  std::vector<std::set<std::size_t>> reached_;   // who stands in a call that all have reached, or in a circle
  RecorderCulprits out_;
};

}  // namespace

RecorderCulprits find_culprits(const RecordedJob& job, const StalledRanks& stalled, const RankWaits& waits) { return Culprits(job, stalled, waits).run(); }

}  // namespace triage::signatures
