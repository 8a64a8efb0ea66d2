// Who waits for whom. Ranks that stand in one call wait for the same others: that is one wait, so a job of n ranks needs no n * n edges.
// Internal to verdict.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace triage::signatures {

// Each of some ranks waits for each of others; one that stands in both does not wait for itself.
struct Wait {
  std::vector<std::size_t> waiting, awaited;
  bool late = false;                     // those awaited have not made the call
};

class WaitGraph {
 public:
  explicit WaitGraph(std::size_t ranks) : joined_(ranks), awaited_in_(ranks) {}

  // Returns the index of the wait. awaited: not empty.
  std::size_t add(std::vector<std::size_t> awaited, bool late) {
    for (const std::size_t rank : awaited) awaited_in_[rank].push_back(waits_.size());
    waits_.push_back({{}, std::move(awaited), late});
    return waits_.size() - 1;
  }
  void join(std::size_t waiter, std::size_t wait) {
    waits_[wait].waiting.push_back(waiter);
    joined_[waiter].push_back(wait);
  }

  const std::vector<Wait>& waits() const { return waits_; }
  // By their indices.
  const std::vector<std::size_t>& waits_of(std::size_t waiter) const { return joined_[waiter]; }
  const std::vector<std::size_t>& waits_for(std::size_t awaited) const { return awaited_in_[awaited]; }

  // Sets of ranks that wait for one another (strongly connected components, Tarjan 1972, without recursion), each with no edge out of it
  // and at least one edge in from another set, or with an edge inside. A set of one rank is who waits for nobody.
  std::vector<std::vector<std::size_t>> ends() const;

 private:
  std::vector<Wait> waits_;
  std::vector<std::vector<std::size_t>> joined_, awaited_in_;   // by rank
};

// Does a list hold a rank other than this one?
inline bool holds_other(const std::vector<std::size_t>& ranks, std::size_t than) { return ranks.size() > 1 || (ranks.size() == 1 && ranks.front() != than); }

}  // namespace triage::signatures
