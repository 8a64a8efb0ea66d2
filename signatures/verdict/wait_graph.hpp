// Who waits for whom. Small directed graph over ranks; internal to verdict.
#pragma once

#include <cstddef>
#include <vector>

namespace triage::signatures {

class WaitGraph {
 public:
  explicit WaitGraph(std::size_t nodes) : next_(nodes) {}
  void add(std::size_t waiter, std::size_t awaited) {
    if (waiter != awaited) next_[waiter].push_back(awaited);
  }
  const std::vector<std::size_t>& awaited_by(std::size_t node) const { return next_[node]; }

  // Sets of nodes that wait for one another (strongly connected components, Tarjan 1972, without recursion), each with no edge out of it
  // and at least one edge in from another set, or with an edge inside. A set of one node is who waits for nobody.
  std::vector<std::vector<std::size_t>> ends() const;

 private:
  std::vector<std::vector<std::size_t>> next_;
};

}  // namespace triage::signatures
