// Finding: a rule that matched a line, with what was read out of it. The value that crosses from the agent half (bytes -> matches)
// to the hub half (matches -> diagnosis); owns everything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parsers/base/units.hpp"
#include "parsers/config/run_config.hpp"
#include "parsers/events/event.hpp"
#include "parsers/records/record.hpp"
#include "signatures/match/signature.hpp"

namespace triage::signatures {

using CaptureValue = std::variant<std::string, std::int64_t, double, parsers::Bytes>;

struct Finding {
  std::string rule;
  std::uint32_t version = 1;
  Role role = Role::root;
  std::string kind;                    // after {capture} was filled in
  std::vector<std::pair<std::string, CaptureValue>> captures;
  parsers::Event event;                // what the rule's parser read
  std::vector<std::string> fixes;
  std::vector<std::string> ends;       // rules whose earlier findings of the source it ends
  std::string summary, help;           // of the rule, captures filled in
  double weight = 0;

  std::uint64_t line = 0;              // 1-based
  std::uint64_t offset = 0;            // bytes, of the line's first byte
  std::uint64_t length = 0;            // bytes of the line
  std::string text;                    // the line, at most limits::kEvidenceBytes
  std::string message;                 // the line without prefixes, likewise

  std::optional<int> rank, local_rank, task, device;
  std::optional<std::int64_t> pid;
  std::string node, actor;
  std::optional<parsers::TimePoint> time;
  parsers::Level level = parsers::Level::unknown;
  bool system = false;                 // the line came from kernel, journal or scheduler
  std::optional<parsers::Traceback> traceback;  // that this line ends or stands in

  std::uint64_t count = 1;             // folded repeats of the same rule, rank and kind
  std::uint64_t last_line = 0;         // of the last repeat
  std::vector<std::uint64_t> repeat_lines;      // at most 32 of them
  std::vector<int> repeat_ranks;                // ranks met among the repeats, at most 4096
};

// What the name of a source says about it.
struct SourceInfo {
  std::string name;                    // as the user gave it; archive!member
  std::uint64_t bytes = 0, lines = 0;
  std::optional<int> rank, local_rank, attempt;
  std::string node, job;
  bool system = false;                 // dmesg, journal, scheduler log: no training program of its own
  bool dump = false;                   // a dump file: one moment of one process, not a log
};

// Data that could not be read or was cut, with where and how much.
struct Lost {
  std::string source, what;            // "line cut at 65536 bytes", "permission denied"
  std::uint64_t line = 0, offset = 0, bytes = 0, count = 1;
};

struct SnapshotFacts;   // verdict/snapshot_facts.hpp

// Everything that was found in one source: the input of the judgement.
struct SourceFindings {
  SourceInfo source;
  std::vector<Finding> findings;       // in order of the source
  parsers::RunConfig config;
  std::vector<parsers::Progress> progress;          // first, last, and the ones next to findings; in order
  std::vector<parsers::MemoryReport> memory;        // first, last and the highest
  std::vector<parsers::Traceback> unfinished;       // stacks whose exception was cut off; the last 32
  std::vector<int> processes;          // ranks (else local ranks, else tasks) met on the lines that were looked at; sorted, at most 4096
  std::vector<std::string> nodes;      // hosts that stand before those lines, at most 16
  std::optional<parsers::TimePoint> first_time, last_time;
  std::uint64_t last_line = 0;         // 1-based, of the source
  std::string last_text;               // the last non-empty line, cut: what a silent death leaves
  parsers::TimePoint::duration clock_ahead{0};   // what the judgement took off the times above (verdict/clocks.hpp)
  std::uint64_t dropped_findings = 0;  // over limits::kFindingsPerSource
  std::vector<Lost> lost;
  std::vector<std::shared_ptr<const SnapshotFacts>> snapshots;   // of an allocator snapshot: one a device
};

}  // namespace triage::signatures
