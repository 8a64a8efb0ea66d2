// Ranks of one pipeline stage run one program: who of them has made fewer calls than its peers, and is no further on its device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "signatures/verdict/recorder/job.hpp"

namespace triage::signatures {

// How many calls a rank is behind, and in which kind of group.
using CallsBehind = std::pair<std::int64_t, std::string>;

// Looks into the job.
class StagePeers {
 public:
  explicit StagePeers(const RecordedJob& job);

  // Of the candidates, ranks of which at least two peers of their stage, also candidates, are no further on their devices and have made more
  // calls. The first and the last rank of the job are left out: programs let them alone wait for values that they print.
  std::map<std::size_t, CallsBehind> held_up(const std::set<std::size_t>& candidates) const;

  // Of ranks of one stage, the one that has made fewer calls than each of the others.
  std::optional<std::pair<std::size_t, CallsBehind>> with_fewest_calls(const std::set<std::size_t>& set) const;

 private:
  // Calls of one kind of group: complete without a gap, and made.
  struct Calls {
    std::int64_t completed = 0, made = 0;
  };
  using Progress = std::map<std::string, Calls>;   // by kind of group

  std::vector<std::optional<std::string>> stages() const;
  Progress progress_of(std::size_t node) const;
  static CallsBehind fewer_calls(const Progress& a, const Progress& b);

  const RecordedJob& job_;
  std::vector<std::optional<std::string>> stage_;   // of each rank; empty: not known
};

}  // namespace triage::signatures
