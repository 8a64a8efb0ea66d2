// Rows that the store hands out and takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::db {

// One incident to keep. answer: the incident as JSON text, returned unchanged by Store::find.
struct Keep {
  const signatures::Diagnosis& diagnosis;
  const signatures::Plan& plan;
  std::string answer;
};

// Which rules made the diagnosis.
struct RuleSet {
  std::string hash, version;
};

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

// How often a fix helped for a fingerprint.
struct FixRecord {
  std::string fix;
  std::int64_t helped = 0, tried = 0;
};

struct HistoryQuery {
  std::string kind;                    // prefix, or empty
  std::string fingerprint;             // exact, or empty
  std::int64_t limit = 50;
};

}  // namespace triage::db
