// Dumps as findings, so that they are judged on the same path as lines of a log: an event, a kind, one line of evidence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parsers/snapshot/core_file.hpp"
#include "parsers/snapshot/cuda_core.hpp"
#include "parsers/snapshot/flight_recorder.hpp"
#include "signatures/match/match.hpp"

namespace triage::signatures {

// proc.sigsegv, proc.sigabrt, ...; a core of a process that lived (gcore) is a fact.
Finding finding_of_core(parsers::CoreFile core);
// cuda.illegal_access, cuda.misaligned, ...; a dump without an exception (asked for by the user) is a fact.
Finding finding_of_cuda_core(parsers::CudaCore core);
// nccl.timeout while calls are open, else a fact. rank: of the dump's name; else the dump's own.
Finding finding_of_recording(parsers::Recording recording, std::optional<int> rank);

bool is_dump(const Finding& finding);
// What a dump adds to a root that a log shows: the library, the kernel. Empty when nothing.
std::string dump_reason(const Finding& finding);

}  // namespace triage::signatures
