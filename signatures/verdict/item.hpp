// Item: a finding as the judgement sees it, with its place in time and its strength as a cause. Internal to verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/units.hpp"
#include "signatures/match/match.hpp"

namespace triage::signatures {

// How good a cause a finding makes. Not a rank order alone: root_cause.cpp compares them with time.
enum class Strength : std::uint8_t {
  none,         // advice, progress, fact
  wrapper,      // an exception that only carries somebody else's failure (ChildFailedError, RayTaskError, SystemExit)
  exit,         // a launcher's, shell's or scheduler's word that a process ended
  abort,        // SIGABRT: the end of something that was told before
  cascade,      // an echo without own cause: dump signals, aborted communicators
  collective,   // collective time-outs and transport errors
  application,  // Xid 13, 31, 43: what a faulty kernel of the program leaves in the kernel log
  scheduler,    // time limit, preemption, node failure, cancellation
  general,      // an exception that no rule explains
  local,        // a rule's own root: out of memory, device fault, storage, data, configuration
  host_oom,     // the kernel, cgroup, Slurm, Kubernetes or Ray killed for memory
  hardware,     // Xid 48, 63, 64, 74, 79, ...: the device itself
};

// Looks into the incident's findings: valid while they are.
struct Item {
  const Finding* finding = nullptr;
  std::size_t source = 0;                     // index into the incident's sources
  std::optional<parsers::TimePoint> when;     // of the line, else of the last line before it with a time
  bool exact = false;                         // when is the line's own
  Strength strength = Strength::none;
  bool caught = false;                        // the program's own text says that it went on
};

Strength strength_of(const Finding& finding);

// The word of the finding that counts: the exception's message, else the line without prefixes.
std::string_view words_of(const Finding& finding);
// Exception class without its module ("OutOfMemoryError"), or empty.
std::string exception_name(const Finding& finding);
bool kind_is(std::string_view kind, std::string_view prefix);   // "gpu.oom" holds "gpu.oom" and "gpu.oom.nccl", not "gpu.oomx"
// An FSDP clone that failed inside a warning: the checkpoint is broken although the program goes on.
bool corrupts_silently(const Finding& finding);
// Raised by the parent of spawned processes for one of them.
bool by_another_process(const Finding& finding);
// KeyError, StopIteration, AttributeError ...: what a program meets and then raises its real error for.
bool is_chain_noise(std::string_view exception);
// Same source and same rank, task, actor or process.
bool same_stream(const Item& a, const Item& b);
// a stands before b: by line in one source, by time between sources; empty if nothing tells.
std::optional<bool> before(const Item& a, const Item& b);
// b - a in seconds, if both have a time.
std::optional<double> seconds_between(const Item& a, const Item& b);
// The Xid number of kind gpu.xid.N.
std::optional<int> xid_code(std::string_view kind);

}  // namespace triage::signatures
