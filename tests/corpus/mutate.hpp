// Ways in which the same log comes to us: through other launchers, containers and collectors, with other ranks between its lines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triage::tests {

// A source of a mutated log.
struct MutatedSource {
  std::string name, text;
  std::size_t portion = 0;   // bytes fed at once; 0: all
};

struct Mutated {
  std::vector<MutatedSource> sources;
  std::optional<int> shift;   // added to each rank that the log names
  std::optional<int> lone;    // the rank that a log of one process gets by the mutation
};

// What is known of the log before it is changed.
struct Original {
  std::string text;
  std::uint64_t root_line = 0;   // 1-based; 0: nothing was diagnosed
  bool alone = false;            // a log of one process: its rank was taken as 0
  bool numbered = false;         // its rank is told by the only number, not 0, that its lines bear
};

struct Mutation {
  const char* name;
  std::function<std::optional<Mutated>(const Original&)> make;   // nothing: does not apply to this log
};

const std::vector<Mutation>& mutations();

}  // namespace triage::tests
