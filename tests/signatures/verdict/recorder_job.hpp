// Recordings of small jobs: written by hand (Ranks), and of a simulated training job with one fault (SimulatedJob).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "signatures/verdict/flight_recorder.hpp"

namespace triage::tests {

class Ranks {
 public:
  explicit Ranks(int count) : recordings_(static_cast<std::size_t>(count)) {
    for (auto& r : recordings_) {
      r.version = "2.9";
      r.has_status = true;
    }
  }

  void group(const std::string& name, const std::string& description, std::vector<int> ranks) {
    for (const int rank : ranks) {
      if (rank >= static_cast<int>(recordings_.size())) continue;
      parsers::RecordedGroup g;
      g.name = name;
      g.description = description;
      g.ranks = ranks;
      g.last_enqueued = 0;
      recordings_[static_cast<std::size_t>(rank)].groups.push_back(g);
    }
  }
  void done(const std::vector<int>& ranks, const std::string& group, const std::string& name, std::int64_t sequence) {
    for (const int rank : ranks) add(rank, group, name, sequence, parsers::RecordedOp::State::completed, "Float[8]");
  }
  void open(const std::vector<int>& ranks, const std::string& group, const std::string& name, std::int64_t sequence,
            parsers::RecordedOp::State state = parsers::RecordedOp::State::scheduled, const std::string& sizes = "Float[8]") {
    for (const int rank : ranks) add(rank, group, name, sequence, state, sizes);
  }
  // from, to: numbers in the group. first: before all that is open already.
  void send(int from, int to, const std::string& group, std::int64_t number, bool first = false) { p2p(from, from, to, "send", group, number, first); }
  void receive(int at, int from, const std::string& group, std::int64_t number, bool first = false) { p2p(at, from, at, "recv", group, number, first); }

  std::vector<signatures::RankRecording> recordings(const std::set<int>& without) const {
    std::vector<signatures::RankRecording> out;
    for (std::size_t r = 0; r < recordings_.size(); ++r)
      if (!without.contains(static_cast<int>(r))) out.push_back({static_cast<int>(r), &recordings_[r]});
    return out;
  }
  std::optional<signatures::RecorderVerdict> judge(const std::set<int>& without = {}) const {
    const auto ranks = recordings(without);
    return signatures::judge_recordings(ranks);
  }
  parsers::Recording& at(int rank) { return recordings_[static_cast<std::size_t>(rank)]; }

 private:
  std::size_t find(parsers::Recording& r, const std::string& group) {
    for (std::size_t g = 0; g < r.groups.size(); ++g)
      if (r.groups[g].name == group) return g;
    return 0;
  }
  void add(int rank, const std::string& group, const std::string& name, std::int64_t sequence, parsers::RecordedOp::State state, const std::string& sizes) {
    auto& r = at(rank);
    parsers::RecordedOp op;
    op.record = ++last_[rank];
    op.group = find(r, group);
    op.sequence = sequence;
    op.name = name;
    op.state = state;
    op.inputs = op.outputs = sizes;
    op.created_ns = 1000 + next_++;
    keep(r, op, false);
  }
  void p2p(int at_rank, int from, int to, const std::string& name, const std::string& group, std::int64_t number, bool first) {
    auto& r = at(at_rank);
    parsers::RecordedOp op;
    op.record = first ? 0 : ++last_[at_rank];
    op.group = find(r, group);
    op.p2p_sequence = number;
    op.name = name;
    op.p2p = true;
    op.from = from;
    op.to = to;
    op.created_ns = 1000 + next_++;
    r.groups[op.group].has_p2p = true;
    keep(r, op, first);
  }
  void keep(parsers::Recording& r, const parsers::RecordedOp& op, bool first) {
    auto& last = r.groups[op.group].last_enqueued;
    last = std::max(last.value_or(0), op.sequence);
    if (!first) r.newest = op;
    r.newest_ns = std::max(r.newest_ns.value_or(0), *op.created_ns);
    ++r.entries;
    if (op.state == parsers::RecordedOp::State::completed) ++r.completed;
    else r.pending.insert(first ? r.pending.begin() : r.pending.end(), op);
  }

  std::deque<parsers::Recording> recordings_;
  std::map<int, std::int64_t> last_;   // number of a rank's last call
  std::int64_t next_ = 1;
};

// A training step with tensor, data and pipeline groups on 8 ranks: hosts run ahead of their devices, a device runs its calls in order
// (sends on streams of their own), a call ends when all have reached it. One rank's host stops, or the rank dies without a dump.
class SimulatedJob {
 public:
  explicit SimulatedJob(unsigned seed) : random_(seed), ranks_(kRanks) {
    faulty_ = pick(kRanks);
    dies_ = pick(2) == 0;
    at_ = 20 + pick(250);
    for (int stage = 0; stage < kStages; ++stage) ranks_.group(tensor(2 * stage), "tensor", {2 * stage, 2 * stage + 1});
    for (int side = 0; side < 2; ++side) {
      std::vector<int> line;
      for (int stage = 0; stage < kStages; ++stage) line.push_back(2 * stage + side);
      ranks_.group(pipe(side), "pipeline", line);
    }
    ranks_.group("0", "default_pg", {0, 1, 2, 3, 4, 5, 6, 7});
    for (int rank = 0; rank < kRanks; ++rank) programs_.push_back(program(rank));
  }

  int faulty() const { return faulty_; }

  // False: nothing hangs.
  bool run() {
    std::vector<std::size_t> next(kRanks, 0);
    for (int time = 0, quiet = 0; quiet < 40; ++time) {
      if (time == at_) stopped_ = true;
      bool moved = false;
      for (int rank = 0; rank < kRanks; ++rank) {
        if (stopped_ && rank == faulty_) continue;
        auto& at = next[static_cast<std::size_t>(rank)];
        const auto& calls = programs_[static_cast<std::size_t>(rank)];
        for (int budget = pick(3); budget > 0 && at < calls.size(); --budget) {
          if (calls[at].sync && !queue(rank).empty()) break;
          if (!calls[at].sync) enqueue(rank, calls[at]);
          ++at;
          moved = true;
        }
      }
      for (int rank = 0; rank < kRanks; ++rank)
        if (!(stopped_ && dies_ && rank == faulty_)) moved = advance(rank) || moved;
      quiet = moved ? 0 : quiet + 1;
    }
    bool open = false;
    for (int rank = 0; rank < kRanks; ++rank) open = record(rank) || open;
    return open && stopped_;
  }

  std::optional<signatures::RecorderVerdict> judge() const { return ranks_.judge(dies_ ? std::set<int>{faulty_} : std::set<int>{}); }

 private:
  static constexpr int kRanks = 8, kStages = 4;
  struct Call {
    bool sync = false;
    int peer = -1;           // of a send or receive: rank
    bool receive = false;
    std::string group;
  };
  struct Work {
    Call call;
    std::string key;         // of the meeting: all who come to it have the same
    std::int64_t number = 0;
    int time = 0;
    bool done = false;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  static std::string tensor(int rank) { return std::to_string(1 + rank / 2); }
  static std::string pipe(int rank) { return std::to_string(10 + rank % 2); }

  std::vector<Call> program(int rank) {
    std::vector<Call> out;
    const int stage = rank / 2;
    const auto layer = [&] {
      out.push_back({false, -1, false, tensor(rank)});
      out.push_back({false, -1, false, tensor(rank)});
    };
    for (int step = 0; step < 4; ++step) {
      for (int micro = 0; micro < 3; ++micro) {
        if (stage > 0) out.push_back({false, rank - 2, true, pipe(rank)});
        layer();
        if (stage + 1 < kStages) out.push_back({false, rank + 2, false, pipe(rank)});
      }
      out.push_back({false, -1, false, "0"});
      out.push_back({true, -1, false, {}});
    }
    return out;
  }

  std::deque<Work*>& queue(int rank) { return queues_[rank]; }

  void enqueue(int rank, const Call& call) {
    Work work;
    work.call = call;
    work.time = clock_++;
    if (call.peer < 0) {
      work.number = ++numbers_[std::to_string(rank) + "/" + call.group];
      work.key = call.group + "#" + std::to_string(work.number);
    } else {
      const int from = call.receive ? call.peer : rank, to = call.receive ? rank : call.peer;
      const auto pair = std::to_string(from) + ">" + std::to_string(to);
      work.number = ++numbers_["p2p" + std::to_string(rank)];
      work.key = pair + "#" + std::to_string(++numbers_[(call.receive ? "r" : "s") + pair]);
    }
    works_[rank].push_back(work);
    queues_[rank].push_back(&works_[rank].back());
  }

  // The device does what stands first; sends do not hold up what follows.
  bool advance(int rank) {
    bool moved = false;
    auto& q = queues_[rank];
    for (auto it = q.begin(); it != q.end();) {
      Work& work = **it;
      auto& here = meetings_[work.key];
      moved = here.insert(rank).second || moved;
      const std::size_t all = work.call.peer >= 0 ? 2 : work.call.group == "0" ? kRanks : 2;
      if (here.size() == all) {
        work.done = true;
        moved = true;
        it = q.erase(it);
        continue;
      }
      if (work.call.peer >= 0 && !work.call.receive) {
        ++it;
        continue;
      }
      break;
    }
    return moved;
  }

  // Into the recordings; true when a call is open.
  bool record(int rank) {
    bool open = false;
    for (const Work& work : works_[rank]) {
      if (work.call.peer < 0) {
        if (work.done) ranks_.done({rank}, work.call.group, "all_reduce", work.number);
        else ranks_.open({rank}, work.call.group, "all_reduce", work.number);
      } else if (!work.done) {
        const int self = rank / 2, peer = work.call.peer / 2;
        work.call.receive ? p2p(rank, peer, self, "recv", work.number) : p2p(rank, self, peer, "send", work.number);
      }
      open = open || !work.done;
    }
    return open;
  }
  void p2p(int rank, int from, int to, const std::string& name, std::int64_t number) {
    parsers::Recording& r = ranks_.at(rank);
    parsers::RecordedOp op;
    for (std::size_t g = 0; g < r.groups.size(); ++g)
      if (r.groups[g].description == "pipeline") op.group = g;
    op.record = 1'000'000 + static_cast<std::int64_t>(r.entries);
    op.name = name;
    op.p2p = true;
    op.p2p_sequence = number;
    op.from = from;
    op.to = to;
    op.created_ns = op.record;
    r.groups[op.group].has_p2p = true;
    ++r.entries;
    r.pending.push_back(op);
    // In the order of the calls: what is recorded so far came before.
    for (std::size_t i = 0; i < r.pending.size(); ++i) r.pending[i].record = static_cast<std::int64_t>(i);
    r.newest = r.pending.back();
  }

  std::mt19937 random_;
  Ranks ranks_;
  int faulty_ = 0, at_ = 0, clock_ = 0;
  bool dies_ = false, stopped_ = false;
  std::vector<std::vector<Call>> programs_;
  std::map<int, std::deque<Work>> works_;
  std::map<int, std::deque<Work*>> queues_;
  std::map<std::string, std::int64_t> numbers_;
  std::map<std::string, std::set<int>> meetings_;
};

}  // namespace triage::tests
