// The judgement: the findings of all sources of one job -> what it died of, attempt by attempt. Called by daemon/pipeline.
#pragma once

#include <vector>

#include "signatures/match/match.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

struct VerdictOptions {
  parsers::TimePoint now;      // of the caller; the judgement reads no clock
};

struct Judgement {
  std::vector<Diagnosis> diagnoses;   // in order of the attempts; none for a healthy job
  std::vector<Handled> handled;       // faults that the run outlived
  std::vector<Lost> lost;             // what could not be read, of all sources
};

// Pure: the same findings give the same answer, whatever their order of arrival.
Judgement judge(std::vector<SourceFindings> sources_of_one_job, const VerdictOptions& options);

}  // namespace triage::signatures
