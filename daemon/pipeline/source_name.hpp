// What a file's name says about the rank, node, attempt and job of the log in it, and which files belong to one job.
#pragma once

#include <string>
#include <string_view>

#include "signatures/match/match.hpp"

namespace triage::daemon {

// Reads rank, local rank, node, attempt out of names such as rank3.log, rank_12.err, node04-rank7.txt, attempt_0/3/stderr.log,
// slurm-1234_2.out, log.3, worker-1.log. `name` is kept as it is.
signatures::SourceInfo source_info(std::string_view name);

// The name with rank, node and stream numbers replaced by '*': sources with equal keys are logs of one job.
// Empty when the name has no such part (then the file is a job of its own).
std::string job_key(std::string_view name);

}  // namespace triage::daemon
