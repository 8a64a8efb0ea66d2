// Diagnosis: what killed the run, where, why, and what is missing. Mirrors the JSON answer (docs/architecture.md); fixes are
// added by plan. Unknown is an empty optional or string.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parsers/config/run_config.hpp"
#include "signatures/match/match.hpp"
#include "signatures/verdict/allocator_what_if.hpp"

namespace triage::signatures {

// MEASURED from this run, MODELLED from its configuration, RULE of thumb with a source.
enum class Basis : std::uint8_t { measured, modelled, rule };

enum class Phase : std::uint8_t {
  unknown, init, load, optimizer_init, forward, loss, backward, optimizer_step, comm, checkpoint, eval, capture, compile
};

struct Evidence {
  std::string source;                  // file as the user gave it
  std::uint64_t line = 0;              // 1-based
  std::uint64_t offset = 0;            // bytes
  std::string text;
  std::optional<int> rank, local_rank, device;
  std::string node;
  std::optional<std::int64_t> pid;
  std::optional<parsers::TimePoint> time;
  std::optional<std::int64_t> step;    // last completed step + 1 where known, else the last seen
  std::vector<parsers::Frame> frames;
};

struct Echo {
  std::string kind;
  std::uint64_t count = 0;
  std::vector<int> ranks;
  std::string source;
  std::uint64_t first_line = 0;
};

// The device's memory at the moment of the failure. Bytes.
struct Ledger {
  std::optional<parsers::Bytes> capacity, free, tried, in_use, allocated, reserved_unallocated, outside_pytorch, limit, private_pools;
  std::vector<parsers::ProcessMemory> other_processes;
  std::string note;                    // what does not add up, in words
};

struct CollectiveFault {
  std::string operation, process_group;
  std::optional<std::int64_t> sequence;
  std::string sizes;                   // "in 56623104 out 56623104"
  std::vector<int> culprit_ranks, waiting_ranks, silent_ranks;
  std::vector<std::vector<int>> one_of;   // in each set at least one rank stands still, and nothing tells which; none is a culprit
  std::string note;
};

struct CompositionTerm {
  std::string term;                    // weights, gradients, optimizer, activations, logits, buffers, fragmentation, unattributed
  parsers::Bytes bytes;
  Basis basis = Basis::modelled;       // of the bytes
  parsers::Bytes guessed{};            // the part of `bytes` whose term no call stack names: the likely reading
  bool in_doubt = false;               // the snapshot that measured it is cut, or has sums that cannot be
};

struct Missing {
  std::string what, set;               // what would make it surer; the exact setting that records it
};

struct Handled {
  std::string source, kind, rule, text, why;
  std::uint64_t line = 0, count = 1;
  std::optional<int> rank;
};

struct Diagnosis {
  std::string id, fingerprint;
  std::string kind;                    // of design section 6
  std::string backend;                 // cuda, hip, xpu, ...; device memory kinds only
  Phase phase = Phase::unknown;
  double confidence = 0;               // 0..1
  std::vector<std::string> reasons;    // why this root, why this sure
  std::string summary;                 // one sentence
  std::string job;
  int attempt = 1;
  std::vector<std::string> frameworks;
  Evidence root;
  std::vector<Evidence> also;          // equal roots of other ranks, when none is provably first
  std::vector<Echo> echoes;
  std::optional<Ledger> ledger;
  std::optional<CollectiveFault> collective;
  std::vector<CompositionTerm> composition;
  std::vector<AllocatorWhatIf> what_if;         // from the snapshot of the failure: other allocator settings
  parsers::RunConfig config;
  bool past_first_step = false;        // the log shows a completed training step before the root
  std::vector<parsers::MemoryReport> memory;    // what the run reported of its memory, at most 64; device memory kinds only
  std::vector<Missing> missing;
  std::vector<Finding> findings;       // that the judgement rests on, at most 200
  std::vector<std::string> finding_sources;     // source name of each
  std::vector<std::string> fix_hints;  // ids or families that the rules named
  std::string help;                    // of the rule: what to check first
};

std::string_view phase_name(Phase phase);
std::string_view basis_name(Basis basis);   // MEASURED, MODELLED, RULE

}  // namespace triage::signatures
