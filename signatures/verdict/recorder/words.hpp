// What the judgement over flight recorder dumps says: groups, calls, and why a rank is named.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "signatures/verdict/recorder/culprits.hpp"
#include "signatures/verdict/recorder/job.hpp"

namespace triage::signatures {

std::string group_name(const parsers::RecordedGroup& group);   // "EXPERT_MODEL_PARALLEL_GROUP (12)"
std::string call_text(const parsers::RecordedOp& op);          // "all_reduce number 7", "send"

// Of a job whose ranks called the same things. Looks into its parts.
struct RecorderWords {
  const RecordedJob& job;
  const StalledRanks& stalled;
  const RankWaits& waits;
  const RecorderCulprits& culprits;

  std::vector<std::string> crossed() const;         // a sentence for each circle of calls in different orders
  std::vector<std::string> named() const;           // a sentence for each reason of culprits that the dumps explain
  std::vector<std::string> together() const;        // a sentence for each set of which one is a culprit
  std::string together_note() const;                // of the first set; empty where there is none, or where it is a circle

 private:
  // Why a rank is named, but for its own number: ranks of one reason are told in one sentence.
  struct Reason {
    enum class Kind { stalled, not_taken, behind, missed, no_dump, waits_for_nobody } kind;
    std::string call;                                // that it is about; of `behind` the kind of group
    std::int64_t count = 0;                          // of `stalled` and `behind` calls; of `not_taken` the sender
    std::vector<std::size_t> waits;                  // for it
    auto operator<=>(const Reason&) const = default;
  };
  // The ranks that wait directly, and the one whose call is the example: the earliest collective among their calls, else the earliest send.
  struct Waiters {
    std::vector<int> ranks;
    std::size_t example = 0;
  };

  Reason reason_of(std::size_t node) const;
  Waiters waiters_of(const Reason& reason, const std::set<std::size_t>& nodes) const;
  std::string sentence(const Reason& reason, const std::set<std::size_t>& nodes) const;
  std::string about_waiters(const Reason& reason, const std::set<std::size_t>& nodes) const;
  std::string unfinished(const std::set<std::size_t>& set) const;
};

// Too few dumps: whom the given ones wait for need not be whom all wait for. unseen: of the culprits, those without a dump.
std::string unseen_text(const RecordedJob& job, const std::vector<int>& unseen);
std::string unseen_majority_text(const RecordedJob& job);      // the same where ranks called different things

}  // namespace triage::signatures
