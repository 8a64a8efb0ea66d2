// Rows that the store hands out and takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/lines/spool_line.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::db {

// One incident to keep. answer: the incident as JSON text, returned unchanged by Store::find.
struct Keep {
  const signatures::Diagnosis& diagnosis;
  const signatures::Plan& plan;
  std::string answer;
};

// Lines of one source that stand around what an incident rests on, in order.
struct Excerpt {
  std::string source;
  std::vector<parsers::SpoolLine> lines;
};

// Which rules made the diagnosis.
struct RuleSet {
  std::string hash, version;
};

// kept: by a scan. The service opens an incident when it sees a root and closes it when the job is quiet or ended.
enum class IncidentState : std::uint8_t { kept, open, closed };
std::string_view incident_state_name(IncidentState state);

// A line of the history.
struct HistoryRow {
  std::string id, fingerprint, kind, phase, summary, source, job, node;
  int attempt = 1;
  double confidence = 0;
  std::int64_t line = 0;
  std::optional<std::int64_t> rank, step;
  parsers::TimePoint kept_at;
  std::optional<parsers::TimePoint> occurred_at;
  std::int64_t seen = 1;               // incidents of the same fingerprint
  IncidentState state = IncidentState::kept;
  std::optional<parsers::TimePoint> opened_at, changed_at;   // of the service's incidents
  std::uint64_t revision = 0;          // of the service's incidents: grows with each change that was told
};

struct Feedback {
  std::string fix;                     // id of the fix, or empty: about the diagnosis
  bool helped = true;
  std::string note;
  parsers::TimePoint said_at;
};

struct Kept {
  HistoryRow row;
  std::string answer;
  std::vector<Feedback> feedback;
};

// How often a change helped for a fingerprint, by what people said and by later attempts that passed the failing step.
struct FixRecord {
  std::string fix;                     // id of the catalogue; empty: a change that no fix of the catalogue stands for
  std::int64_t helped = 0, tried = 0;
  std::string settings;                // of changes without an id: what was changed, as the run states it
};

// Which incidents. Empty: any.
struct HistoryQuery {
  std::string kind;                    // beginning of a kind, in whole parts
  std::string fingerprint;             // exact
  std::int64_t limit = 50;
  std::string job, node;               // exact; node is where the root stands
  std::optional<std::int64_t> rank;    // of the root
  std::optional<parsers::TimePoint> since, until;   // kept_at: from since on, before until
  std::optional<bool> open;            // false: closed, and what scans kept
  std::string cursor;                  // HistoryPage::next of the page before; begins after it
};

// Newest first. next: cursor of the page that follows; empty: this is the last one.
struct HistoryPage {
  std::vector<HistoryRow> rows;
  std::string next;
};
// The cursor of the page after the incident with that kept_at and id.
std::string history_cursor(parsers::TimePoint kept_at, const std::string& id);

}  // namespace triage::db
