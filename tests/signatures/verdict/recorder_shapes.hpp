// Recordings of simulated Megatron jobs of 2 to 64 ranks: tensor, pipeline, data and expert groups, 1F1B schedules, dumps of all calls or of the
// active ones alone. Hosts run ahead of their devices; a device runs its calls in order, sends beside them.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "signatures/verdict/flight_recorder.hpp"

namespace triage::tests {

// The host makes no more calls | the rank is gone, and leaves no dump | the device fails: nothing is seen complete any more, and the host raises |
// the device's compute stream hangs: what NCCL has begun ends, nothing new begins.
enum class Fault { stops, dies, fails, sleeps };

class ShapedJob {
 public:
  ShapedJob(unsigned seed, int faults, std::vector<Fault> kinds = {Fault::stops, Fault::dies}) : random_(seed) {
    static constexpr int kShapes[][3] = {{1, 1, 2}, {2, 2, 2}, {2, 4, 2}, {1, 4, 2}, {2, 2, 4}, {4, 1, 4}, {1, 1, 8}, {2, 4, 4}, {4, 4, 4}, {2, 8, 2}, {4, 2, 1}};
    const auto& shape = kShapes[pick(std::size(kShapes))];
    tp_ = shape[0], pp_ = shape[1], dp_ = shape[2];
    ranks_ = tp_ * pp_ * dp_;
    experts_ = pick(2) == 1 && tp_ * dp_ > 1;
    active_only_ = pick(2) == 1;
    micros_ = 1 + pick(3) + (pp_ > 1 ? 1 : 0);
    layers_ = 1 + pick(2);
    make_groups();
    const auto n = static_cast<std::size_t>(ranks_);
    programs_.resize(n), works_.resize(n), queues_.resize(n), collectives_.resize(n), sends_.resize(n), last_sent_.resize(n);
    for (int rank = 0; rank < ranks_; ++rank) build(rank);
    const int at = 30 + pick(150);
    while (static_cast<int>(faults_.size()) < std::min(faults, ranks_ - 1)) {
      const int rank = pick(ranks_);
      faults_[rank] = kinds[idx(pick(kinds.size()))];
      at_[rank] = at + pick(4);
    }
  }

  int ranks() const { return ranks_; }
  std::vector<int> faulty() const {
    std::vector<int> out;
    for (const auto& [rank, fault] : faults_) out.push_back(rank);
    return out;
  }

  // False: nothing hangs.
  bool run() {
    std::vector<std::size_t> next(programs_.size(), 0);
    bool fired = false;
    for (int quiet = 0; quiet < 40; ++clock_) {
      bool moved = false;
      for (int rank = 0; rank < ranks_; ++rank) {
        fired = fired || broken(rank);
        if (broken(rank) && faults_.at(rank) <= Fault::dies) continue;
        auto& at = next[idx(rank)];
        const auto& calls = programs_[idx(rank)];
        for (int budget = pick(3); budget > 0 && at < calls.size(); --budget) {
          const bool sync = calls[at].kind == Call::sync;
          if (sync && (!queues_[idx(rank)].empty() || (broken(rank) && faults_.at(rank) == Fault::fails))) break;
          if (calls[at].kind != Call::sync) enqueue(rank, calls[at]);
          ++at;
          moved = true;
        }
      }
      for (int rank = 0; rank < ranks_; ++rank)
        if (!broken(rank) || faults_.at(rank) == Fault::stops || faults_.at(rank) == Fault::sleeps) moved = advance(rank) || moved;
      // A watchdog looks at the events every now and then.
      for (int rank = 0; rank < ranks_; ++rank)
        if (!(broken(rank) && faults_.at(rank) == Fault::fails) && (quiet > 10 || pick(3) == 0))
          for (Work& work : works_[idx(rank)]) work.seen = work.done;
      quiet = moved ? 0 : quiet + 1;
    }
    return fired && std::any_of(works_.begin(), works_.end(), [](const auto& of) { return std::any_of(of.begin(), of.end(), [](const Work& w) { return !w.seen; }); });
  }

  std::optional<signatures::RecorderVerdict> judge() {
    recordings_.assign(static_cast<std::size_t>(ranks_), {});
    std::vector<signatures::RankRecording> all;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (faults_.contains(rank) && faults_.at(rank) == Fault::dies) continue;
      record(rank);
      all.push_back({rank, &recordings_[idx(rank)]});
    }
    return signatures::judge_recordings(all);
  }

 private:
  struct Call {
    enum Kind { collective, send, receive, sync } kind = sync;
    int peer = -1;
    std::string group, name;
  };
  struct Work {
    Call call;
    std::string meeting;     // all who come to it have the same
    std::int64_t sequence = 0, p2p = 0;
    int time = 0;
    bool begun = false, done = false, seen = false;
  };
  struct Group {
    std::string description;
    std::vector<int> ranks;
  };

  static std::size_t idx(int rank) { return static_cast<std::size_t>(rank); }
  int pick(std::size_t n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int pick(int n) { return pick(static_cast<std::size_t>(n)); }
  int rank_of(int p, int d, int t) const { return (p * dp_ + d) * tp_ + t; }
  bool broken(int rank) const {
    const auto at = at_.find(rank);
    return at != at_.end() && clock_ >= at->second;
  }

  void make_groups() {
    const auto add = [&](const char* description, std::vector<int> ranks) {
      if (ranks.size() > 1) groups_[std::to_string(groups_.size())] = Group{description, std::move(ranks)};
    };
    std::vector<int> world;
    for (int rank = 0; rank < ranks_; ++rank) world.push_back(rank);
    add("default_pg", world);
    for (int p = 0; p < pp_; ++p) {
      std::vector<int> expert;
      for (int d = 0; d < dp_; ++d) {
        std::vector<int> tensor;
        for (int t = 0; t < tp_; ++t) tensor.push_back(rank_of(p, d, t));
        expert.insert(expert.end(), tensor.begin(), tensor.end());
        add("TENSOR_MODEL_PARALLEL_GROUP", tensor);
      }
      for (int t = 0; t < tp_; ++t) {
        std::vector<int> data;
        for (int d = 0; d < dp_; ++d) data.push_back(rank_of(p, d, t));
        add("DATA_PARALLEL_GROUP_WITH_CP", data);
      }
      if (experts_) add("EXPERT_MODEL_PARALLEL_GROUP", expert);
    }
    for (int d = 0; d < dp_; ++d)
      for (int t = 0; t < tp_; ++t) {
        std::vector<int> line;
        for (int p = 0; p < pp_; ++p) line.push_back(rank_of(p, d, t));
        add("PIPELINE_MODEL_PARALLEL_GROUP", line);
      }
  }
  std::string group_of(const std::string& description, int rank) const {
    for (const auto& [name, group] : groups_)
      if (group.description == description && std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end()) return name;
    return {};
  }

  void build(int rank) {
    const int stage = rank / (dp_ * tp_), stride = tp_ * dp_;
    auto& out = programs_[idx(rank)];
    const std::string tensor = group_of("TENSOR_MODEL_PARALLEL_GROUP", rank), line = group_of("PIPELINE_MODEL_PARALLEL_GROUP", rank),
                      data = group_of("DATA_PARALLEL_GROUP_WITH_CP", rank), expert = group_of("EXPERT_MODEL_PARALLEL_GROUP", rank);
    const auto collective = [&](const std::string& group, const char* name) {
      if (!group.empty()) out.push_back({Call::collective, -1, group, name});
    };
    const auto layers = [&] {
      for (int i = 0; i < layers_; ++i) {
        collective(tensor, "_all_gather_base");
        collective(tensor, "_reduce_scatter_base");
        collective(expert, "all_to_all");
        if (!expert.empty()) out.push_back({});
        collective(expert, "all_to_all");
      }
    };
    const auto pass = [&](bool forward) {
      const bool from = forward ? stage > 0 : stage + 1 < pp_, to = forward ? stage + 1 < pp_ : stage > 0;
      const int before = forward ? rank - stride : rank + stride, after = forward ? rank + stride : rank - stride;
      if (from) out.push_back({Call::receive, before, line, "recv"});
      layers();
      if (to) out.push_back({Call::send, after, line, "send"});
    };
    for (int step = 0; step < 4; ++step) {
      const int warm = std::min(micros_, pp_ - 1 - stage);
      for (int i = 0; i < warm; ++i) pass(true);
      for (int i = warm; i < micros_; ++i) {
        pass(true);
        pass(false);
      }
      for (int i = 0; i < warm; ++i) pass(false);
      collective(data, "_reduce_scatter_base");
      collective("0", "all_reduce");
      out.push_back({});
      collective(data, "_all_gather_base");
    }
  }

  void enqueue(int rank, const Call& call) {
    Work work;
    work.call = call;
    work.time = clock_;
    auto& calls = collectives_[idx(rank)][call.group];
    auto& sent = sends_[idx(rank)][call.group];
    if (call.kind == Call::collective) {
      work.sequence = ++calls;
      work.meeting = call.group + "#" + std::to_string(calls);
    } else {
      const bool send = call.kind == Call::send;
      const std::string pair = std::to_string(send ? rank : call.peer) + ">" + std::to_string(send ? call.peer : rank);
      work.sequence = calls;
      ++sent;
      work.meeting = pair + "#" + std::to_string(++pairs_[(send ? "s" : "r") + pair]);
    }
    work.p2p = sent;
    last_sent_[idx(rank)][call.group] = call.kind != Call::collective;
    works_[idx(rank)].push_back(work);
    queues_[idx(rank)].push_back(&works_[idx(rank)].back());
  }

  bool advance(int rank) {
    bool moved = false;
    const bool hangs = broken(rank) && faults_.at(rank) == Fault::sleeps;
    auto& queue = queues_[idx(rank)];
    for (auto it = queue.begin(); it != queue.end();) {
      Work& work = **it;
      if (hangs && !work.begun) {
        if (work.call.kind != Call::send) break;
        ++it;
        continue;
      }
      work.begun = true;
      auto& here = meetings_[work.meeting];
      moved = here.insert(rank).second || moved;
      const std::size_t all = work.call.kind == Call::collective ? groups_.at(work.call.group).ranks.size() : 2;
      if (here.size() == all) {
        work.done = true;
        moved = true;
        it = queue.erase(it);
      } else if (work.call.kind == Call::send) {
        ++it;
      } else {
        break;
      }
    }
    return moved;
  }

  void record(int rank) {
    parsers::Recording& r = recordings_[idx(rank)];
    r.version = "2.9";
    r.has_status = true;
    std::map<std::string, std::size_t> index;
    for (const auto& [name, group] : groups_) {
      if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end()) continue;
      index[name] = r.groups.size();
      parsers::RecordedGroup g;
      g.name = name;
      g.description = group.description;
      g.ranks = group.ranks;
      r.groups.push_back(std::move(g));
    }
    std::int64_t number = 0;
    for (const Work& work : works_[idx(rank)]) {
      ++number;
      if (work.seen && active_only_) continue;
      parsers::RecordedOp op;
      op.record = number;
      op.group = index.at(work.call.group);
      op.sequence = work.sequence;
      op.p2p_sequence = work.p2p;
      op.name = work.call.name;
      op.created_ns = 1000 + work.time * 100 + rank % 7;
      op.inputs = op.outputs = "Float[8]";
      op.state = work.seen ? parsers::RecordedOp::State::completed : parsers::RecordedOp::State::scheduled;
      parsers::RecordedGroup& group = r.groups[op.group];
      if (work.call.kind != Call::collective) {
        const auto place = [&](int of) { return static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), of) - group.ranks.begin()); };
        op.p2p = group.has_p2p = true;
        op.from = place(work.call.kind == Call::send ? rank : work.call.peer);
        op.to = place(work.call.kind == Call::send ? work.call.peer : rank);
      }
      group.last_enqueued = std::max(group.last_enqueued.value_or(op.sequence), op.sequence);
      r.newest = op;
      r.newest_ns = std::max(r.newest_ns.value_or(0), *op.created_ns);
      ++r.entries;
      if (work.seen) ++r.completed;
      else r.pending.push_back(op);
    }
    // pg_status counts the last work of either kind.
    for (const auto& [name, g] : index) {
      const auto sent = last_sent_[idx(rank)].find(name);
      if (sent == last_sent_[idx(rank)].end()) continue;
      parsers::RecordedGroup& group = r.groups[g];
      group.status_enqueued = sent->second ? sends_[idx(rank)][name] : collectives_[idx(rank)][name];
      if (group.last_enqueued) continue;
      group.last_enqueued = group.status_enqueued;
      group.enqueued_by_status = true;
    }
  }

  std::mt19937 random_;
  int tp_ = 1, pp_ = 1, dp_ = 1, ranks_ = 1, micros_ = 1, layers_ = 1, clock_ = 0;
  bool experts_ = false, active_only_ = false;
  std::map<std::string, Group> groups_;
  std::map<int, Fault> faults_;
  std::map<int, int> at_;
  std::vector<std::vector<Call>> programs_;
  std::vector<std::deque<Work>> works_;
  std::vector<std::deque<Work*>> queues_;
  std::vector<std::map<std::string, std::int64_t>> collectives_, sends_;
  std::vector<std::map<std::string, bool>> last_sent_;
  std::map<std::string, std::int64_t> pairs_;
  std::map<std::string, std::set<int>> meetings_;
  std::vector<parsers::Recording> recordings_;
};

}  // namespace triage::tests
