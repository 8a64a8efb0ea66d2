#include "signatures/verdict/wait_graph.hpp"

#include <algorithm>

namespace triage::signatures {

std::vector<std::vector<std::size_t>> WaitGraph::ends() const {
  // Nodes are the ranks and, after them, the waits: rank -> wait -> awaited ranks.
  const std::size_t ranks = joined_.size(), n = ranks + waits_.size(), none = n;
  const auto next = [&](std::size_t v) -> const std::vector<std::size_t>& { return v < ranks ? joined_[v] : waits_[v - ranks].awaited; };
  const auto target = [&](std::size_t v, std::size_t entry) { return v < ranks ? ranks + entry : entry; };
  std::vector<std::size_t> index(n, none), low(n, 0), component(n, none), stack, edge(n, 0);
  std::vector<bool> on_stack(n, false);
  std::vector<std::vector<std::size_t>> components;
  std::size_t counter = 0;
  std::vector<std::size_t> path;
  for (std::size_t start = 0; start < n; ++start) {
    if (index[start] != none) continue;
    path.push_back(start);
    while (!path.empty()) {
      const std::size_t v = path.back();
      if (index[v] == none) {
        index[v] = low[v] = counter++;
        stack.push_back(v);
        on_stack[v] = true;
      }
      bool deeper = false;
      while (edge[v] < next(v).size()) {
        const std::size_t w = target(v, next(v)[edge[v]]);
        if (index[w] == none) {
          path.push_back(w);
          deeper = true;
          break;
        }
        if (on_stack[w]) low[v] = std::min(low[v], low[w]);
        ++edge[v];
      }
      if (deeper) continue;
      path.pop_back();
      if (low[v] != index[v]) continue;
      components.emplace_back();
      for (;;) {
        const std::size_t w = stack.back();
        stack.pop_back();
        on_stack[w] = false;
        component[w] = components.size() - 1;
        components.back().push_back(w);
        if (w == v) break;
      }
    }
  }
  std::vector<bool> leaves(components.size(), false), entered(components.size(), false);
  for (std::size_t v = 0; v < n; ++v)
    for (const std::size_t entry : next(v)) {
      const std::size_t w = target(v, entry);
      if (component[v] == component[w]) {
        entered[component[v]] = true;
      } else {
        leaves[component[v]] = true;
        entered[component[w]] = true;
      }
    }
  std::vector<std::vector<std::size_t>> out;
  for (std::size_t c = 0; c < components.size(); ++c) {
    if (leaves[c] || !entered[c]) continue;
    std::erase_if(components[c], [&](std::size_t v) { return v >= ranks; });
    std::sort(components[c].begin(), components[c].end());
    out.push_back(components[c]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace triage::signatures
