// The flight recorder dumps of all ranks put together: who is in which group, what is open on whom, what each has called and completed.
// Asked by the steps of the judgement beside it (stalled, difference, waits, culprits); judges nothing itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "signatures/verdict/flight_recorder.hpp"

namespace triage::signatures {

// Looks into its recording.
struct RecordedRank {
  int rank = 0;
  const parsers::Recording* recording = nullptr;    // null: no dump of this rank
  std::map<std::string, std::size_t> groups;        // key of the group -> index into the recording's groups
  const parsers::RecordedOp* head = nullptr;        // what the device stands in: the oldest open call that later ones wait for, else the oldest open send
};

// A call and the rank that has it open. Looks into the recordings.
struct OpenCall {
  std::size_t node = 0;                             // index of the rank in its RecordedJob
  const parsers::RecordedOp* op = nullptr;
};

// Looks into the recordings: valid while they are. Ranks stand in it in rising order, those without a dump too, and are told by their index.
class RecordedJob {
 public:
  using OpenCalls = std::map<std::pair<std::string, std::int64_t>, std::vector<OpenCall>>;   // (key of the group, number) -> who has it open, in rising order

  // A rank that is given twice counts once, with the first.
  explicit RecordedJob(std::span<const RankRecording> recordings);

  std::size_t size() const { return ranks_.size(); }
  const RecordedRank& operator[](std::size_t node) const { return ranks_[node]; }
  const std::vector<RecordedRank>& ranks() const { return ranks_; }
  const OpenCalls& collectives() const { return collectives_; }

  // A group as all its members tell it. Names count up alike on all ranks; two jobs in one folder differ by the members.
  static std::string key_of(const parsers::RecordedGroup& group);
  // Groups of one kind are used alike: where one of them sends, all do.
  static std::string kind_of(const parsers::RecordedGroup& group);
  bool sends(const parsers::RecordedGroup& group) const { return with_sends_.contains(kind_of(group)); }

  const parsers::RecordedGroup& group_of(const RecordedRank& rank, const parsers::RecordedOp& op) const { return rank.recording->groups[op.group]; }
  const parsers::RecordedGroup& group_of(const OpenCall& call) const { return group_of(ranks_[call.node], *call.op); }

  std::size_t index_of(int rank) const { return index_.at(rank); }   // of a rank of the job
  std::vector<std::size_t> members(const parsers::RecordedGroup& group) const;
  std::optional<std::size_t> at_place(const parsers::RecordedGroup& group, int place) const;   // empty: the group has no such place
  std::vector<int> numbers(const std::set<std::size_t>& nodes) const;

  // Number of the last collective that a rank called in a group; empty: not known.
  std::optional<std::int64_t> last_called(std::size_t node, const std::string& key) const;
  bool open(std::size_t node, const std::string& key, std::int64_t sequence) const;
  // False also where the dump does not tell.
  bool completed(std::size_t node, const std::string& key, std::int64_t sequence) const;

  // Too many dumps are missing for their ranks to have died: not all were given.
  bool many_silent() const;

 private:
  std::vector<RecordedRank> ranks_;
  std::map<int, std::size_t> index_;
  OpenCalls collectives_;
  std::set<std::string> with_sends_;                // kinds of groups that some rank sends in
};

}  // namespace triage::signatures
