// Triage: the findings of many sources in, diagnoses with ranked fixes out. The hub half of the pipeline.
#pragma once

#include <vector>

#include "daemon/pipeline/knowledge.hpp"
#include "parsers/base/units.hpp"
#include "signatures/match/match.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"
#include "signatures/verdict/snapshot_facts.hpp"

namespace triage::daemon {

struct JudgedIncident {
  signatures::Diagnosis diagnosis;
  signatures::Plan plan;
};

struct ScanStats {
  std::uint64_t files = 0, bytes = 0, lines = 0;
  double seconds = 0;                          // wall clock of the whole scan
};

// The whole answer of a scan. Mirrors the JSON answer.
struct Answer {
  std::vector<JudgedIncident> incidents;       // surest first within a job; jobs in the order of their sources
  std::vector<signatures::Handled> handled;
  std::vector<signatures::Lost> lost;
  std::vector<signatures::SourceInfo> sources;
  ScanStats stats;
};

// Groups the sources to jobs by their names (source_name.hpp), judges each job, plans its fixes. now: of the caller's clock.
// An allocator snapshot among them joins the diagnosis of its failure or its process, and gives it the composition of the memory; one that
// holds a failure of which no source tells is judged by itself.
Answer judge_sources(const Knowledge& knowledge, std::vector<signatures::SourceFindings> sources, parsers::TimePoint now);

// Adds each source without a byte to what is lost, whatever it was meant to be: its writer died before the first one, or the disk was full.
void tell_empty(Answer& answer);

// The same for sources that are known to be of one job, whatever their names.
Answer judge_job(const Knowledge& knowledge, std::vector<signatures::SourceFindings> sources, parsers::TimePoint now);

}  // namespace triage::daemon
